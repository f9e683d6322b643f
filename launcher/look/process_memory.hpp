// ProcessMemory reads the memory of a living process, which neither helps nor is stopped.
//
// The kernel is asked by process_vm_readv, and by /proc/PID/mem where that call is forbidden, as seccomp
// filters of older containers do; the right to trace the process is needed for either. Each thread needs an
// object of its own, and each look a new one: from the first read by /proc/PID/mem on, it stays with the
// program that the process had then.
// Pages that the process itself may not read are in that file, too.
#pragma once

#include <sys/types.h>

#include <string>

#include "launcher/look/memory_reader.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

class ProcessMemory final : public MemoryReader {
  public:
    // kMaxRead: a longer read fails.
    static constexpr std::size_t kMaxRead = 4 * 1024 * 1024;

    explicit ProcessMemory(pid_t pid, std::string proc = "/proc");

    bool read(std::uintptr_t address, std::span<std::byte> into) const override;

    // Returns the error with which the kernel refuses all of this process's memory, ESRCH if there is none
    // any more; 0 unless a read() has found that. to_reason() has words for it.
    int refusal() const { return refusal_; }

    // Returns true once process_vm_readv was found to be forbidden.
    bool reads_by_file() const { return by_file_; }

  private:
    bool read_by_file(std::uintptr_t address, std::span<std::byte> into) const;

    pid_t pid_;
    std::string proc_;
    mutable bool by_file_ = false;
    mutable OwnedDescriptor file_;
    mutable int refusal_ = 0;
};

}  // namespace launch
}  // namespace ddprun
