#include "launcher/process/process_runner.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <optional>

namespace ddprun {
inline namespace launch {
namespace {

std::optional<termios> modes_of(const std::string& bytes) {
    termios modes{};
    if (bytes.size() != sizeof modes) return std::nullopt;
    std::memcpy(&modes, bytes.data(), sizeof modes);
    return modes;
}

// Only the flags are compared that every terminal takes.
bool are_same(const termios& one, const termios& other) {
    return one.c_iflag == other.c_iflag && one.c_oflag == other.c_oflag && one.c_lflag == other.c_lflag;
}

}  // namespace

std::string bytes_of_modes(const termios& modes) {
    return {reinterpret_cast<const char*>(&modes), sizeof modes};
}

void remove_traces(const LauncherTraces& traces, int terminal) noexcept {
    if (struct stat info{}; ::lstat(traces.pipe.c_str(), &info) == 0 && S_ISFIFO(info.st_mode))
        ::unlink(traces.pipe.c_str());
    if (!traces.folder.empty()) ::rmdir(traces.folder.c_str());
    const auto before = modes_of(traces.modes_before);
    const auto set = modes_of(traces.modes_set);
    termios now{};
    if (!before || !set || ::tcgetattr(terminal, &now) != 0 || !are_same(now, *set)) return;
    ::tcsetattr(terminal, TCSANOW, &*before);
}

}  // namespace launch
}  // namespace ddprun
