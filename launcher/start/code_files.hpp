// code_files() finds which files of this machine a start would execute, or load before its program begins.
// foreign_file() asks for their owners. Blocking, short: names are looked up, no file is read.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/start/start_tree.hpp"

namespace ddprun {
inline namespace launch {

// CodeFile is a file, or a folder, that decides which code runs.
struct CodeFile {
    enum class Look {
        always,      // no other user may have it
        where_open,  // no other user may have it where other users may make names on the way to it
        never,       // its owner may have what lies in it
    };

    std::string name;
    Look look = Look::where_open;

    bool operator<(const CodeFile& other) const {
        return std::pair(look, name) < std::pair(other.look, other.name);
    }
};

// Returns the files of the command, the options and the carried variables of the plan, relative ones in the
// working directory. `own` is this machine's environment, which has the PATH where none is carried.
//   a word, or a part of one              the file of that name; of a folder its __main__
//   a word without a folder               what PATH leads to, where others may make names on PATH
//   PROGRAM, or what Python is given      a folder, and what Python imports from it before it begins
//   -m NAME                               the module, from the working directory and PYTHONPATH
//   a variable of code_variables()        its files, and what lies in its folders
// What lies in a folder is asked for where others may make names in that very folder. Throws Error
// (Errc::limit_exceeded) for more than kMaxNamedFiles, and for such folders of over 256 Ki entries.
std::vector<CodeFile> code_files(const StartPlan& plan, const Environment& own);

// Returns the owners, but for root, of the files and of the folders that they lie in, for StartPlan. Throws
// Error (Errc::limit_exceeded) for more than can be sent.
FileOwners owners_here(const std::vector<CodeFile>& files);

// Returns the owners that the file and its folder had at the starter.
std::vector<uid_t> owners_there(const FileOwners& owners, const std::string& name);

// Returns the first file that is another user's here, and was none of that user's at the starter; and the
// user.
std::optional<std::pair<std::string, uid_t>> foreign_file(const std::vector<CodeFile>& files,
                                                          const FileOwners& owners);

}  // namespace launch
}  // namespace ddprun
