// These questions only a child process may ask (bounded_child.hpp). Each is two functions: the question, which runs in the
// child, and what its answer says, which is pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/doctor/bounded_child.hpp"

namespace ddprun::inline launch {

struct FolderQuestion {
    std::string role;
    std::string path;
    bool is_written = true;    // a small file is written there, and removed
    bool may_be_made = false;  // where the folder is not there, the nearest one above it counts
};

// Does not allocate in the child.
std::function<void()> ask_folder(const FolderQuestion& question);
FolderFacts folder_facts(const FolderQuestion& question, const BoundedChild::Answer& answer);

// Asks what a host's name stands for. The child allocates.
std::function<void()> ask_name(const std::string& host);
NameFacts name_facts(const BoundedChild::Answer& answer);

// Asks the same for several hosts, one after the other. A name that the child has not got to within its time hangs.
std::function<void()> ask_names(const std::vector<std::string>& hosts);
std::vector<NameFacts> names_facts(std::size_t hosts, const BoundedChild::Answer& answer);

// Runs Python, as the first of `candidates` (exec_search.hpp) that can be run, and has it say its version and, out of the
// metadata of what is installed, that of PyTorch; which it does not import. `wanted` as PythonFacts has it.
std::function<void()> ask_python(const std::vector<std::string>& candidates);
PythonFacts python_facts(const std::string& wanted, const BoundedChild::Answer& answer);

}  // namespace ddprun::inline launch
