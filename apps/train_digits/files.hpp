// Whole files in and out, for the data set and the model. Blocking; no state.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace ddprun::inline app {

// The user's file or flag is wrong: one whole line that names the file (and line) or the flag and the value.
class InputError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// The bytes of the file. Throws InputError that names the path if it cannot be read or holds more than
// max_bytes.
std::string read_file(const std::string& path, std::size_t max_bytes);

// Throws InputError that names the path unless a file of this name can be made or replaced: its folder exists
// and may be written to, and the name is not a folder's. To be asked before work whose result goes there.
void require_writable_place(const std::string& path);

// Writes to `path`.tmp.<pid> in the same folder, brings that to the disk and renames it to `path`: a reader
// of `path` sees the old content or the whole new one. On failure the temporary file is removed and
// std::system_error names the path and the system's reason.
void write_file_atomically(const std::string& path, const std::string& bytes);

}  // namespace ddprun::inline app
