#include "launcher/look/process_memory.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace ddprun {
inline namespace launch {

ProcessMemory::ProcessMemory(pid_t pid, std::string proc) : pid_(pid), proc_(std::move(proc)) {}

bool ProcessMemory::read(std::uintptr_t address, std::span<std::byte> into) const {
    if (into.empty()) return true;
    if (into.size() > kMaxRead || address + into.size() < address || refusal_ != 0) return false;
    if (!by_file_) {
        const iovec here{into.data(), into.size()};
        const iovec there{reinterpret_cast<void*>(address),
                          into.size()};  // NOLINT(performance-no-int-to-ptr)
        const ssize_t count = ::process_vm_readv(pid_, &here, 1, &there, 1, 0);
        if (count >= 0 || errno == EFAULT) return count == static_cast<ssize_t>(into.size());
        if (errno != EPERM && errno != ENOSYS) {
            if (errno == ESRCH) refusal_ = errno;
            return false;
        }
        by_file_ = true;
    }
    return read_by_file(address, into);
}

bool ProcessMemory::read_by_file(std::uintptr_t address, std::span<std::byte> into) const {
    if (!file_) {
        file_.reset(::open(fmt::format("{}/{}/mem", proc_, pid_).c_str(), O_RDONLY | O_CLOEXEC));
        if (!file_) refusal_ = errno == ENOENT ? ESRCH : errno;
        if (!file_) return false;
    }
    const ssize_t count = ::pread(file_.get(), into.data(), into.size(), static_cast<off_t>(address));
    // Nothing, and no error: all of the process's memory is gone.
    if (count == 0) refusal_ = ESRCH;
    return count == static_cast<ssize_t>(into.size());
}

}  // namespace launch
}  // namespace ddprun
