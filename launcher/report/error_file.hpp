// Error files: what a worker writes into $TORCHELASTIC_ERROR_FILE before it ends (PyTorch's @record does),
// and what the launcher passes on to the program that started it. Parsing and composing are pure; reading and writing
// are thin.
//
// Two forms are understood:
//   {"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "Traceback ...", "timestamp":
//   "1700000000"}}}
//   {"message": "x", "timestamp": 1700000000}
// with timestamps in seconds, as a number or as text. Nothing here throws, whatever a worker wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/control/control_message.hpp"

namespace ddprun::inline launch {

inline constexpr std::size_t kMaxErrorFile = 1024 * 1024;

// An ErrorFile is what such a file says. Texts are valid UTF-8 and fit a control message (cut_middle).
struct WorkerError {
    std::string message;
    std::string traceback;
    std::optional<std::int64_t> unix_time_s;
    std::string file;  // the whole file as it is, empty if it could not be understood

    bool operator==(const WorkerError&) const = default;
};

// A file that cannot be understood becomes a message that says so and shows how it begins.
WorkerError parse_error_file(std::string_view text);

// Returns nothing if the worker wrote none: there is no file, or an empty one. One that cannot be read, or is over
// kMaxErrorFile, becomes a message that says so.
std::optional<WorkerError> read_error_file(const std::filesystem::path& path);

// Returns what torchrun would write into its own error file: the first failing worker's `file` with its exit code in
// the nested form's inner object, as "errorCode" (minus the signal's number where a signal ended it). The
// flat form is passed on as it is. Without `file` (the worker ran on another node) the nested form is made of
// `failure`. Nothing if the worker wrote no error file, as with torchrun.
std::optional<std::string> root_cause_file(const Failure& failure, std::string_view file);

// Writes it to the launcher's own $TORCHELASTIC_ERROR_FILE; what is there is replaced. If that fails, one line
// that says why.
std::optional<std::string> write_root_cause(const std::filesystem::path& own_error_file,
                                            const Failure& failure, std::string_view file);

}  // namespace ddprun::inline launch
