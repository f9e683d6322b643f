// detach() carries out --detach: the launcher goes on in a session of its own while the shell has its prompt
// back.
//
// detach() forks: setsid, no terminal, stdin /dev/null, stdout and stderr one file. The parent stays until it
// is told that the workers run, or until the launcher has ended. Until then it shows on its own stderr what
// the launcher itself says, no more and no less, and passes signals on. To be called while there is one
// thread only.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

struct Detached {
    // exit_code, in the parent: the code to exit with now. 0: the workers run, and their job's id was
    // printed.
    std::optional<int> exit_code;
    // starter, in the launcher: where tell_started is to write to.
    OwnedDescriptor starter;
};

// Makes `output`, the file that the launcher's stdout and stderr become, for its owner alone, and forks.
// Throws Error, then there is one process.
Detached detach(const std::filesystem::path& output);

// Lets the parent go, with the id it prints. A parent that was killed is no trouble.
void tell_started(OwnedDescriptor starter, const std::string& id);

}  // namespace launch
}  // namespace ddprun
