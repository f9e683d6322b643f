// Some things belong to this process alone, and not to a child that it forks.
//
// A child has a copy of all memory and all descriptors, but none of the threads; and the sockets and shared
// memory stand for the parent to all other ranks. So the child gives up the descriptors at once, or it would
// keep connections open that tell of the parent's death by closing; and whatever has threads, or tells others
// that it ends, is forgotten there instead of destroyed.
//
// The registry behind this is global, as the threads of run_beside() are: a handler of fork() can have no
// argument. Any thread may call any of this at any time, also while another one forks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace ddprun {
inline namespace base {

// A ProcessNumber says which process this is: it is another one in each child, grandchild and so on, whatever
// made it that copies the memory (fork, clone), and the same where the memory is shared (vfork). Costs a
// load.
using ProcessNumber = std::uint32_t;
ProcessNumber this_process() noexcept;

// Keeps an object of the parent's for as long as this process lives, unused, where leak checkers see it.
void forget(const void* object) noexcept;

// Deletes in the process that the object was made in, and forgets elsewhere.
template <class T>
class DeleteInOwnProcess {
  public:
    void operator()(T* object) const noexcept { this_process() == process_ ? delete object : forget(object); }

  private:
    ProcessNumber process_ = this_process();
};

// Does what std::make_shared does, for what children must not destroy.
template <class T, class... Arguments>
std::shared_ptr<T> make_in_process(Arguments&&... arguments) {
    return std::shared_ptr<T>(new T(std::forward<Arguments>(arguments)...), DeleteInOwnProcess<T>());
}

// ProcessDescriptor is one that forked children do not have: it is closed there when fork() returns. (A child
// by a bare clone() keeps it until it ends.) Move-only; may be destroyed in a child.
class ProcessDescriptor {
  public:
    ProcessDescriptor() = default;
    // Owns what open() returns, which makes a new descriptor without waiting for anything; below 0: none, and
    // errno is left as it was. No thread forks between the making and the listing.
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

// Opens /dev/null where a standard stream is missing; children inherit it. It is the first thing that a
// program's main does: a program that was started without one of its streams would get that number for the
// first file or socket that it opens, and what it prints would land there.
void open_missing_streams() noexcept;

}  // namespace base
}  // namespace ddprun
