// BoundedChild asks a question that only a child process may ask. Each question is two functions: ask_…,
// which runs in the child, and …_facts, which reads the answer and is pure.
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

// kMaxChildAnswer: bytes of an answer; a longer one is cut off there.
inline constexpr std::size_t kMaxChildAnswer = 64 * 1024;
// kReapLimit: how long a killed child is waited for.
inline constexpr std::chrono::milliseconds kReapLimit{200};

// BoundedChild is a child process that asks what may never be answered: a folder of a dead file server, a
// name server that is down. The parent is not held up.
//
// The child has no descriptors but its standard streams: /dev/null, and stdout for its answer. Hence the
// child keeps no pipe open for which another process waits. The child is killed with its process group when
// its time is over or the object goes. A child that the kernel does not let go is left killed. Used on the
// thread that made it.
class BoundedChild {
  public:
    // Runs `ask` in the child, where it writes to STDOUT_FILENO. Other threads of the parent may hold locks
    // there: if there are any, `ask` must not allocate.
    explicit BoundedChild(const std::function<void()>& ask);
    BoundedChild(const BoundedChild&) = delete;
    BoundedChild& operator=(const BoundedChild&) = delete;
    ~BoundedChild() { end(); }

    struct Answer {
        AnswerEnd end = AnswerEnd::failed;
        std::string bytes;
    };
    // Waits for the answer; called once. The end is `answered` when the child has closed its stdout or ended
    // by itself.
    Answer await(Deadline deadline);

    pid_t pid() const { return pid_; }  // -1: there is none

  private:
    void end();

    pid_t pid_ = -1;
    OwnedDescriptor answer_;
};

// Asks whether a folder can be used. Does not allocate in the child.
std::function<void()> ask_folder(const FolderQuestion& question);
FolderFacts folder_facts(const FolderQuestion& question, const BoundedChild::Answer& answer);

// Asks what a host's name stands for. The child allocates.
std::function<void()> ask_name(const std::string& host);
NameFacts name_facts(const BoundedChild::Answer& answer);

// Asks the same for several hosts, one after the other. A name that the child does not reach in time counts
// as one that hangs.
std::function<void()> ask_names(const std::vector<std::string>& hosts);
std::vector<NameFacts> names_facts(std::size_t hosts, const BoundedChild::Answer& answer);

// Runs Python, as the first of `candidates` (child_exec.hpp) that can be run. Python says its version and,
// out of the metadata of what is installed, PyTorch's version, without importing PyTorch. `wanted` as in
// PythonFacts.
std::function<void()> ask_python(const std::vector<std::string>& candidates);
PythonFacts python_facts(const std::string& wanted, const BoundedChild::Answer& answer);

}  // namespace launch
}  // namespace ddprun
