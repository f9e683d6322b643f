// Where the job's secret comes from, and where a new one is put. Reads and writes files; blocking, short, but for stdin,
// which is waited for kStdinTimeout at most. Called by ddprun before anything else is started.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>

namespace ddprun::inline job {

struct SecretSources {
    std::string file;      // --secret-file or DDPRUN_SECRET_FILE; "-": one line of stdin; empty: not given
    std::string variable;  // what DDPRUN_SECRET holds; empty: not set
    std::filesystem::path own_file;  // own_secret_file(); need not be there
};

inline constexpr std::chrono::seconds kStdinTimeout{60};

// The first that is given, in that order; nothing: none is. A text: one that is given cannot be taken, whose, why, and
// what to do; no other one is taken instead.
std::variant<std::optional<std::string>, std::string> find_secret(const SecretSources& sources);

// $XDG_CONFIG_HOME/ddprun/secret, else ~/.config/ddprun/secret; empty where there is no home.
std::filesystem::path own_secret_file(const char* xdg_config_home, const char* home);

// A new secret there, for nobody else to read; the folder likewise, if it is new. A text says why not; one that is there is kept.
std::optional<std::string> make_secret_file(const std::filesystem::path& path);

}  // namespace ddprun::inline job
