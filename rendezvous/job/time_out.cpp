#include "rendezvous/job/time_out.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>

namespace ddprun {
inline namespace job {
namespace {

// In lower case.
constexpr std::string_view kTimeOuts[] = {
    "timed out",                   // Gloo, sockets, our collectives, subprocesses
    "timeouterror",                // Python
    "socket timeout",              // PyTorch's store
    "wait timeout after",          // the same
    "operation timeout",           // NCCL's watchdog
    "before timing out",           // the same
    "watchdog thread terminated",  // the same
    "deadline exceeded",           // gRPC
};

}  // namespace

bool is_time_out(std::string_view words) {
    std::string lower(words);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char byte) { return static_cast<char>(std::tolower(byte)); });
    return std::any_of(std::begin(kTimeOuts), std::end(kTimeOuts),
                       [&lower](std::string_view phrase) { return lower.find(phrase) != std::string::npos; });
}

bool names_time_out(const Failure& failure) {
    const auto& lines = failure.last_lines;
    return is_time_out(failure.error_message) || is_time_out(failure.traceback) ||
           std::any_of(lines.begin(), lines.end(), is_time_out);
}

}  // namespace job
}  // namespace ddprun
