#include "launcher/output/hollowed_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace ddprun::inline launch {
namespace {

// What file systems give back at least.
constexpr off_t kPage = 4096;
constexpr off_t kMaxHead = off_t{1} << 20;

off_t whole_pages(off_t size) { return size - size % kPage; }

}  // namespace

HollowedFile::HollowedFile(int fd)
    : file_(::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY)) {}

bool HollowedFile::give_room() {
    struct stat info {};
    if (!file_ || ::fstat(file_.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
    if (hole_begin_ == 0) hole_begin_ = hole_end_ = whole_pages(std::min(info.st_size / 4, kMaxHead));
    const off_t keep_from = hole_end_ + whole_pages((info.st_size - hole_end_) / 2);
    if (hole_begin_ == 0 || keep_from == hole_end_ ||
        ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, hole_end_,
                    keep_from - hole_end_) != 0)
        return false;
    hole_end_ = keep_from;
    // Where there were bytes before, so it needs no room; a longer one covers the one before.
    const std::string note =
        fmt::format("\n[ddprun: {} bytes were left out here: the disk was full]\n", hole_end_ - hole_begin_);
    const auto size = static_cast<off_t>(note.size());
    return ::pwrite(file_.get(), note.data(), note.size(), hole_begin_ - size) == size;
}

}  // namespace ddprun::inline launch
