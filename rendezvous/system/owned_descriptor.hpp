// OwnedDescriptor is a descriptor that is closed with its owner. Move-only.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace ddprun {
inline namespace base {

class OwnedDescriptor {
  public:
    explicit OwnedDescriptor(int fd = -1) : fd_(fd) {}
    OwnedDescriptor(OwnedDescriptor&& other) noexcept : fd_(other.release()) {}
    OwnedDescriptor& operator=(OwnedDescriptor&& other) noexcept {
        reset(other.release());
        return *this;
    }
    ~OwnedDescriptor() { reset(); }

    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    int release() { return std::exchange(fd_, -1); }
    void reset(int fd = -1) {
        const int old = std::exchange(fd_, fd);
        if (old >= 0) ::close(old);
    }

  private:
    int fd_;
};

// Returns the same file under a number that is none of the standard streams': a launcher that was entered
// without them is given those numbers. Empty, with errno set, if `fd` is empty or there is no other number.
inline OwnedDescriptor above_standard_streams(OwnedDescriptor fd) {
    if (!fd || fd.get() > STDERR_FILENO) return fd;
    return OwnedDescriptor(::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

}  // namespace base
}  // namespace ddprun
