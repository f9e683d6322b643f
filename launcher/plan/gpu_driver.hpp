// What NVIDIA's driver tells in /proc. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::inline launch {

// "550.54.15" out of /proc/driver/nvidia/version, and "NVIDIA H100 80GB HBM3" out of gpus/*/information there.
std::optional<std::string> parse_driver_version(std::string_view text);
std::optional<std::string> parse_gpu_model(std::string_view text);

}  // namespace ddprun::inline launch
