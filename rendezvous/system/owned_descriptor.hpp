// OwnedDescriptor closes its descriptor when it is destroyed. Move-only.
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

// Returns the same file under a number above the standard streams': a launcher started without them would be
// given those numbers. Returns an empty one, with errno set, if `fd` is empty or no number is free.
inline OwnedDescriptor above_standard_streams(OwnedDescriptor fd) {
    if (!fd || fd.get() > STDERR_FILENO) return fd;
    return OwnedDescriptor(::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

}  // namespace base
}  // namespace ddprun
