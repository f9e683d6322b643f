#include "collectives/nccl/nccl_settings.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "collectives/error.hpp"
#include "collectives/nccl/nccl_rings.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline detail {
namespace {

[[noreturn]] void fail_setting(const std::string& what) {
    throw CollectiveError(CollectiveErrorCode::invalid_argument, "join: " + what, {}, "join");
}

}  // namespace

std::optional<NcclSettings> read_nccl_settings(const Environment& environment,
                                               const CommunicatorOptions& options, int local_rank) {
    const auto value = [&](const char* name) {
        const std::string* found = find_variable(environment, name);
        return found == nullptr ? std::string() : *found;
    };
    BackendChoice choice = options.backend;
    if (choice == BackendChoice::automatic) {
        const std::string wanted = value("DDPRUN_BACKEND");
        if (!wanted.empty() && wanted != "cpu" && wanted != "nccl") {
            fail_setting(fmt::format("DDPRUN_BACKEND='{}' is neither cpu nor nccl", wanted));
        }
        choice = wanted == "nccl" ? BackendChoice::nccl : BackendChoice::cpu;
    }
    if (choice == BackendChoice::cpu) return std::nullopt;
    NcclSettings settings{value("DDPRUN_NCCL_LIBRARY"), value("DDPRUN_CUDA_LIBRARY"), std::max(local_rank, 0),
                          options.reproducible};
    const std::string algorithms = value("NCCL_ALGO");
    if (options.reproducible && !algorithms.empty() && !reduces_by_rings(algorithms)) {
        fail_setting(
            fmt::format("NCCL_ALGO='{}' contradicts CommunicatorOptions::reproducible, which reduces by "
                        "rings: unset one of them, or set NCCL_ALGO=Ring",
                        algorithms));
    }
    const auto read_device = [&](const char* name) {
        const std::string text = value(name);
        const auto device = whole_number<int>(text, 0);
        if (!device) fail_setting(fmt::format("{}='{}' is not the number of a device", name, text));
        settings.device = *device;
    };
    if (options.device >= 0) {
        settings.device = options.device;
    } else if (!value("DDPRUN_DEVICE").empty()) {
        read_device("DDPRUN_DEVICE");
    } else if (local_rank < 0 && !value("LOCAL_RANK").empty()) {
        read_device("LOCAL_RANK");
    }
    return settings;
}

}  // namespace ddprun::inline detail
