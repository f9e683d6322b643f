// The fault script of the NCCL stand-in: what it does wrong on purpose.
//
// STANDIN_NCCL holds faults, separated by commas: name[:number][@rank]. Without a rank they are every rank's.
//   in_progress:N    every call goes on in the background, and is found to do so N times
//   stuck:K          the K-th operation goes on in the background for ever
//   hang:K           the K-th operation's kernel runs for ever, until it is aborted
//   async_error:K    the same, and NCCL reports a remote error
//   call_fails:K     the K-th operation is refused with a system error
//   stream_fails:K   the K-th operation's event reports an illegal address
//   lost_peer        a peer whose connection closes is reported as a remote error
//   abort_hangs      ncclCommAbort never returns
//   finalize_stuck   ncclCommFinalize goes on for ever
//   init_fails, init_error, init_stuck   the making: refused, failed in the background, never done
//   version:N        of NCCL; default 22809
//   devices:N        CUDA devices; default 8
//   cuda_init:N      cuInit returns N
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::standin {

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

}  // namespace ddprun::standin
