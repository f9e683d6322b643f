// The fault script of the NCCL stand-in: what it does wrong on purpose.
//
// STANDIN_NCCL holds faults, separated by commas: name[:number][@rank]. Without a rank they are every rank's.
//   connects         the first operation's call waits until all ranks have made theirs; a collective, please
//   stuck:K          the call of the K-th operation waits for ever, until it is aborted
//   hang:K           the K-th operation's kernel runs for ever, until it is aborted
//   async_error:K    the same, and NCCL reports a remote error
//   call_fails:K     the K-th operation is refused with a system error
//   stream_fails:K   the K-th operation's event reports an illegal address
//   dies:K           the process is killed in the call of the K-th operation
//   lost_peer        a peer whose connection closes is reported as a remote error
//   abort_hangs      ncclCommAbort never returns
//   finalize_stuck   ncclCommFinalize does not return until standin_let_go()
//   init_fails, init_error   the making: refused, failed
//   init_stuck       the making does not return until standin_let_go()
//   init_dies:N      the process is killed in the making, after N milliseconds
//   version:N        of NCCL; default 22809
//   devices:N        CUDA devices; default 8
//   cuda_init:N      cuInit returns N
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {
namespace standin {

// The number of a fault, 1 if it has none; nothing if the script does not have it.
inline std::optional<int> fault(std::string_view name, int rank = -1) {
    const char* text = std::getenv("STANDIN_NCCL");
    std::string_view script = text != nullptr ? text : "";
    while (!script.empty()) {
        const auto comma = script.find(',');
        std::string_view entry = script.substr(0, comma);
        script.remove_prefix(comma == std::string_view::npos ? script.size() : comma + 1);
        const auto at = entry.find('@');
        const bool here =
            at == std::string_view::npos || std::atoi(std::string(entry.substr(at + 1)).c_str()) == rank;
        entry = entry.substr(0, at);
        const auto colon = entry.find(':');
        if (!here || entry.substr(0, colon) != name) continue;
        return colon == std::string_view::npos ? 1 : std::atoi(std::string(entry.substr(colon + 1)).c_str());
    }
    return std::nullopt;
}

}  // namespace standin
}  // namespace ddprun
