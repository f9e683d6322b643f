// What the tests of ddprun's options share: a configuration file, and why words are refused.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "apps/ddprun/options/command_line.hpp"

namespace ddprun {

// A configuration file for as long as it lives.
class ConfigText {
  public:
    explicit ConfigText(const std::string& text)
        : path_(std::filesystem::temp_directory_path() / ("ddprun-options-" + std::to_string(::getpid()))) {
        std::ofstream(path_) << text;
    }
    ~ConfigText() { std::filesystem::remove(path_); }
    ConfigText(const ConfigText&) = delete;
    ConfigText& operator=(const ConfigText&) = delete;

    std::string flag() const { return "--config=" + path_.string(); }
    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

// What is wrong with the words, or `accepted`.
inline std::string refusal(const std::vector<std::string>& words, const Environment& environment = {}) {
    try {
        parse_command_line(words, environment);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "accepted";
}

}  // namespace ddprun
