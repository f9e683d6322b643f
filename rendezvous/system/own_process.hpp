// ProcessDescriptor and DeleteInOwnProcess own what belongs to this process alone, and not to a child that it
// forks.
//
// A child has a copy of all memory and all descriptors, but none of the threads. To all other ranks, the
// sockets and shared memory stand for the parent. The child closes the descriptors at once, or it would keep
// connections open that tell of the parent's death by closing. Objects that have threads, or tell others when
// they end, are forgotten in the child instead of destroyed.
//
// The registry behind these types is global, as are the threads of run_beside(): a handler of fork() can have
// no argument. Any thread may call the functions here at any time, also while another thread forks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace ddprun {
inline namespace base {

// ProcessNumber identifies a process: every child and grandchild that copies the memory (fork, clone) gets
// another number, and a child that shares the memory (vfork) the same one. Reading the number costs one load.
using ProcessNumber = std::uint32_t;
ProcessNumber this_process() noexcept;

// Keeps an unused object of the parent's for the life of this process, where leak checkers see it.
void forget(const void* object) noexcept;

// DeleteInOwnProcess deletes an object in the process that made it, and forgets the object elsewhere.
template <class T>
class DeleteInOwnProcess {
  public:
    void operator()(T* object) const noexcept { this_process() == process_ ? delete object : forget(object); }

  private:
    ProcessNumber process_ = this_process();
};

// make_in_process() is std::make_shared for objects that children must not destroy.
template <class T, class... Arguments>
std::shared_ptr<T> make_in_process(Arguments&&... arguments) {
    return std::shared_ptr<T>(new T(std::forward<Arguments>(arguments)...), DeleteInOwnProcess<T>());
}

// ProcessDescriptor is a descriptor that forked children do not have: it is closed there when fork() returns.
// (A child made by a bare clone() keeps the descriptor until the child ends.) Move-only; may be destroyed in
// a child.
class ProcessDescriptor {
  public:
    ProcessDescriptor() = default;
    // Owns the new descriptor that open() returns; open() must not wait for anything. A result below 0 means
    // none, and errno is left as it was. No thread forks between the making of the descriptor and its
    // registration.
    explicit ProcessDescriptor(const std::function<int()>& open);
    ProcessDescriptor(ProcessDescriptor&& other) noexcept
        : fd_(std::exchange(other.fd_, -1)), process_(other.process_) {}
    ProcessDescriptor& operator=(ProcessDescriptor&& other) noexcept;
    ~ProcessDescriptor() { close(); }

    int get() const noexcept { return fd_; }
    explicit operator bool() const noexcept { return fd_ >= 0; }

  private:
    void close() noexcept;

    int fd_ = -1;
    ProcessNumber process_ = 0;
};

// Opens /dev/null where a standard stream is missing; children inherit it. main() calls this first. Without
// it, the first file or socket would get the missing stream's number, and what the program prints would land
// there.
void open_missing_streams() noexcept;

}  // namespace base
}  // namespace ddprun
