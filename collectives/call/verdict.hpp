// Verdict: why a communicator ended. One per communicator and rank, the first that arrives; all ranks are
// told.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collectives/call/call.hpp"
#include "collectives/error.hpp"
#include "rendezvous/worker/accusation.hpp"

namespace ddprun::inline detail {

struct Verdict {
    CollectiveErrorCode code = CollectiveErrorCode::system;
    std::vector<int> culprits;
    std::string text;  // a sentence without final stop

    bool operator==(const Verdict&) const = default;
};

// The exception a call throws because of it.
inline CollectiveError error_of(const Verdict& verdict, const Call& call) {
    return CollectiveError(verdict.code, describe(call) + ": " + verdict.text, verdict.culprits,
                           std::string(name_of(call.operation)), call.sequence);
}

// The same for what is no operation, and begins with `prefix`.
inline CollectiveError error_of(const Verdict& verdict, const std::string& prefix) {
    return CollectiveError(verdict.code, prefix + ": " + verdict.text, verdict.culprits, prefix);
}

// How the death of a rank shows.
inline constexpr std::string_view kConnectionsClosed = "its connections closed without a goodbye";
inline constexpr std::string_view kProcessEnded = "its process ended without a goodbye";

inline Verdict death_verdict(int rank, std::string_view how) {
    return {CollectiveErrorCode::peer_died, {rank}, accuse(rank, Charge::died) + ": " + std::string(how)};
}

// What abort(reason) on `rank` means for all.
inline Verdict abort_verdict(int rank, const std::string& reason) {
    return {CollectiveErrorCode::aborted,
            {rank},
            accuse(rank, Charge::aborted) + ": " + (reason.empty() ? "no reason given" : reason)};
}

}  // namespace ddprun::inline detail
