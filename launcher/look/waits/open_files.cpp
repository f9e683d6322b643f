#include "launcher/look/waits/open_files.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <filesystem>
#include <functional>
#include <system_error>

namespace ddprun {
inline namespace launch {
namespace {

std::string link_at(const std::string& path) {
    std::array<char, PATH_MAX> text{};
    const ssize_t count = ::readlink(path.c_str(), text.data(), text.size());
    return count < 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(count));
}

}  // namespace

std::string link_of(pid_t process, int descriptor, const std::string& proc) {
    return link_at(fmt::format("{}/{}/fd/{}", proc, process, descriptor));
}

OpenFiles OpenFiles::read(std::span<const pid_t> processes, Deadline deadline, const std::string& proc) {
    OpenFiles found;
    for (const pid_t process : processes) {
        std::error_code error;
        std::size_t count = 0;
        for (std::filesystem::directory_iterator entry(fmt::format("{}/{}/fd", proc, process), error), end;
             !error && entry != end && ++count <= kMaxDescriptors && !has_passed(deadline);
             entry.increment(error)) {
            const std::string link = link_at(entry->path());
            if (!link.starts_with("socket:") && !link.starts_with("pipe:")) continue;
            struct stat status {};  // of the link itself: how the file was opened
            if (::lstat(entry->path().c_str(), &status) != 0) continue;
            found.files_.emplace(
                link, OpenFile{process, (status.st_mode & S_IRUSR) != 0, (status.st_mode & S_IWUSR) != 0});
        }
    }
    return found;
}

std::vector<OpenFile> OpenFiles::with(std::string_view link) const {
    const auto [first, last] = files_.equal_range(link);
    std::vector<OpenFile> files;
    for (auto file = first; file != last; ++file) files.push_back(file->second);
    return files;
}

}  // namespace launch
}  // namespace ddprun
