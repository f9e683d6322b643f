// These questions only a child process may ask (BoundedChild). Each is two functions: the question, which
// runs in the child, and what its answer says, which is pure.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "launcher/doctor/surroundings.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

// A longer answer is cut off there.
inline constexpr std::size_t kMaxChildAnswer = 64 * 1024;
// A killed child is waited for so long.
inline constexpr std::chrono::milliseconds kReapLimit{200};

// BoundedChild is a child process that asks what may never be answered (a folder of a dead file server, a
// name server that is not there), so that its parent is not held up.
//
// The child has no descriptors but its standard streams: /dev/null, and stdout for its answer; so nobody
// waits for it at the end of a pipe. It is killed with its process group when its time is over or the object
// goes; one that the kernel does not let go is left killed. Used on the thread that made it.
class BoundedChild {
  public:
    // `ask` runs in the child and writes to STDOUT_FILENO. Other threads may hold locks there: it must not
    // allocate where there are any.
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

// Does not allocate in the child.
std::function<void()> ask_folder(const FolderQuestion& question);
FolderFacts folder_facts(const FolderQuestion& question, const BoundedChild::Answer& answer);

// Asks what a host's name stands for. The child allocates.
std::function<void()> ask_name(const std::string& host);
NameFacts name_facts(const BoundedChild::Answer& answer);

// Asks the same for several hosts, one after the other. A name that the child has not got to within its time
// hangs.
std::function<void()> ask_names(const std::vector<std::string>& hosts);
std::vector<NameFacts> names_facts(std::size_t hosts, const BoundedChild::Answer& answer);

// Runs Python, as the first of `candidates` (child_exec.hpp) that can be run, and has it say its version and,
// out of the metadata of what is installed, that of PyTorch; which it does not import. `wanted` as
// PythonFacts has it.
std::function<void()> ask_python(const std::vector<std::string>& candidates);
PythonFacts python_facts(const std::string& wanted, const BoundedChild::Answer& answer);

}  // namespace launch
}  // namespace ddprun
