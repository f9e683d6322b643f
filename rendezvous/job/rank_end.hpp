// RankEnd: how one worker ended. Plain values.
#pragma once

#include <cstdint>
#include <string>

#include "rendezvous/job/failure.hpp"

namespace ddprun::inline job {

struct RankEnd {
    enum class Manner {
        succeeded,  // exit code 0, and nobody had told it to end
        failed,     // by itself: the first failure, or one that came too before it was told to end, even if
                    // that showed only later
        stopped,    // after ddprun had told it to, by no signal but those that ddprun had sent
        lost,       // with its node: nothing is known
    };
    BOOST_DESCRIBE_NESTED_ENUM(Manner, succeeded, failed, stopped, lost)

    int rank = 0;
    int local_rank = 0;
    int node_rank = 0;
    std::string host;
    std::int64_t pid = 0;
    int exit_code = 0;  // as a shell reports it
    int signal = 0;
    bool core_dumped = false;
    bool outlasted_grace = false;  // stopped by the SIGKILL at the end of the grace
    Manner manner = Manner::succeeded;
    std::int64_t wall_ms = 0;
};
BOOST_DESCRIBE_STRUCT(RankEnd, (),
                      (rank, local_rank, node_rank, host, pid, manner, exit_code, signal, core_dumped,
                       outlasted_grace, wall_ms))
constexpr std::size_t limit_of(Of<&RankEnd::host>) { return kMaxHostText; }
constexpr NumberRange range_of(Of<&RankEnd::rank>) { return kRankRange; }
constexpr NumberRange range_of(Of<&RankEnd::local_rank>) { return {0, kMaxWorkersPerNode - 1}; }
constexpr NumberRange range_of(Of<&RankEnd::node_rank>) { return kNodeRange; }
constexpr NumberRange range_of(Of<&RankEnd::exit_code>) { return kExitCodeRange; }
constexpr NumberRange range_of(Of<&RankEnd::signal>) { return kSignalRange; }
constexpr NumberRange range_of(Of<&RankEnd::wall_ms>) { return kMillisecondRange; }

// Who succeeded has ended with 0, and who failed has not.
inline bool is_sound(const RankEnd& end) {
    if (end.manner == RankEnd::Manner::succeeded) return end.exit_code == 0;
    return end.manner != RankEnd::Manner::failed || end.exit_code != 0;
}

}  // namespace ddprun::inline job
