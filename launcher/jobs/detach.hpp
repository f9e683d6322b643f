// --detach: the launcher goes on in a session of its own while the shell has its prompt back.
//
// detach() forks: setsid, no terminal, stdin /dev/null, stdout and stderr one file. The parent stays until it
// is told that the workers run, or until the launcher has ended; it shows what the launcher itself says until
// then on its own stderr, no more and no less, and passes signals on. It is to be called while there is one
// thread only.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

struct Detached {
    // In the parent: the code to exit with now. 0: the workers run, and their job's id was printed.
    std::optional<int> exit_code;
    // In the launcher: where tell_started is to write to.
    OwnedDescriptor starter;
};

// `output`: the file that the launcher's stdout and stderr become; made here, for its owner alone. Throws
// Error, then there is one process.
Detached detach(const std::filesystem::path& output);

// Lets the parent go, with the id it prints. It may have been killed; that is no trouble.
void tell_started(OwnedDescriptor starter, const std::string& id);

}  // namespace launch
}  // namespace ddprun
