// own_python() is the Python of the environment that this launcher lies in, as torchrun runs that of its own.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace app {

// Returns the python3 of the environment that holds `program`, a link on its way to a file, or that file;
// empty: no environment holds one of them. An environment is a virtual one (pyvenv.cfg above the folder),
// made by venv, virtualenv, pipx, uv or uvx. Any other folder with a Python beside the launcher is one, too,
// as with conda. A folder that many programs share (/usr/bin) counts only if its Python has our package.
std::string python_beside(const std::string& program);

// Returns the python3 of this process's environment, found by the name that the process was started by and by
// its file's.
std::string own_python();

// Says in a line that this process's environment has lost its Python, a link that leads nowhere, so that
// Python is PATH's; empty: not so.
std::string lost_python();

// Says in a line that PATH has another python3 than `own`; empty: it has the same, or none.
std::string other_python_on_path(const std::string& own, const Environment& environment);

// Returns what the user can write for Python: `own`, unless that is what python3 means by `path`, or there is
// none; empty: there is no Python.
std::string python_to_write(const std::string& own, const std::optional<std::string>& path);

// Says which Python the user's word `name` means by `path` where that is not `own`; empty: it is, or one of
// the two is not there.
std::string python_of_words(const std::string& name, const std::string& own,
                            const std::optional<std::string>& path);

}  // namespace app
}  // namespace ddprun
