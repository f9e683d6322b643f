// BoundedChild: a child process that asks what may never be answered (a folder of a dead file server, a name server
// that is not there), so that its parent is not held up.
//
// The child has no descriptors but its standard streams: /dev/null, and stdout for its answer; so nobody waits for
// it at the end of a pipe. It is killed with its process group when its time is over or the object goes; one that the
// kernel does not let go is left killed. Used on the thread that made it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "launcher/doctor/surroundings.hpp"
#include "rendezvous/system/deadline.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline launch {

// A longer answer is cut off there.
inline constexpr std::size_t kMaxChildAnswer = 64 * 1024;
// A killed child is waited for so long.
inline constexpr std::chrono::milliseconds kReapLimit{200};

class BoundedChild {
  public:
    // `ask` runs in the child and writes to STDOUT_FILENO. Other threads may hold locks there: it must not allocate
    // where there are any.
    explicit BoundedChild(const std::function<void()>& ask);
    BoundedChild(const BoundedChild&) = delete;
    BoundedChild& operator=(const BoundedChild&) = delete;
    ~BoundedChild() { end(); }

    struct Answer {
        AnswerEnd end = AnswerEnd::failed;
        std::string bytes;
    };
    // Called once. The end is `answered` when the child has closed its stdout or ended by itself.
    Answer await(Deadline deadline);

    pid_t pid() const { return pid_; }  // -1: there is none

  private:
    void end();

    pid_t pid_ = -1;
    OwnedDescriptor answer_;
};

}  // namespace ddprun::inline launch
