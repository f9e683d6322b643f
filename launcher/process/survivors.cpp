#include "launcher/process/survivors.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace ddprun::inline launch {
namespace {

constexpr std::string_view kMarkName = "DDPRUN_RUN_ID=";

// Looks for the entry piece by piece: an environment may be megabytes long.
bool environment_holds(const std::filesystem::path& file, const std::string& entry) {
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    // Entries end with a zero byte; with one in front, the first one is like the others.
    const std::string wanted = '\0' + entry + '\0';
    std::string window(1, '\0');
    std::array<char, 16 * 1024> buffer;
    bool found = false;
    while (!found) {
        const ssize_t count = ::read(fd, buffer.data(), buffer.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        window.append(buffer.data(), static_cast<std::size_t>(count));
        found = window.find(wanted) != std::string::npos;
        if (window.size() >= wanted.size()) window.erase(0, window.size() - wanted.size() + 1);
    }
    ::close(fd);
    return found;
}

bool may_be_read(const std::filesystem::path& process) {
    const uid_t user = ::geteuid();
    struct stat info {};
    return user == 0 || (::stat(process.c_str(), &info) == 0 && info.st_uid == user);
}

}  // namespace

std::vector<Survivor> find_survivors(std::string_view job_id, std::uint64_t since,
                                     const std::filesystem::path& proc) {
    const std::string entry = std::string(kMarkName) + std::string(job_id);
    std::vector<Survivor> found;
    const auto table =
        read_process_table(proc, [&proc](pid_t pid) { return may_be_read(proc / std::to_string(pid)); });
    if (!table) return found;
    for (const ProcessStat& process : *table) {
        if (!process.ended() && process.start_time >= since &&
            environment_holds(proc / std::to_string(process.pid) / "environ", entry)) {
            found.push_back(describe_survivor(process, proc));
        }
    }
    return found;
}

}  // namespace ddprun::inline launch
