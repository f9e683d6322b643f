// Failure is what ended, or would have ended, the job first. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/job/number_limits.hpp"
#include "rendezvous/job/ranks_doing.hpp"

namespace ddprun {
inline namespace job {

inline constexpr std::size_t kMaxHostText = 255;
inline constexpr std::size_t kMaxLastLines = 20;
inline constexpr std::size_t kMaxLastLineText = 400;

struct Failure {
    enum class Kind {
        worker_failed,
        node_lost,
        signalled,  // an agent was signalled, or acted as if it was
        overdue,    // a worker ran longer than others that it should have ended with
        hang,       // the job did not get on; the worker, if there is one, is the first suspect
        resized,    // no failure: a node joins, and the round ends for it
    };
    BOOST_DESCRIBE_NESTED_ENUM(Kind, worker_failed, node_lost, signalled, overdue, hang, resized)

    Kind kind = Kind::worker_failed;
    int node_rank = 0;
    std::string host;
    int rank = -1;         // global rank of the worker, -1 when no worker is meant
    int local_rank = -1;   // local rank of the worker, -1 likewise
    std::int64_t pid = 0;  // of the worker; 0 if it was never started
    int exit_code = 0;     // worker_failed: what a shell would report, 128+n for a signal; node_lost:
                           // kExitUnavailable; overdue and hang: kExitOverdue
    int signal = 0;        // the signal that ended the worker, or that the agent was sent; 0 if none
    bool core_dumped = false;
    std::int64_t unix_time_ms = 0;  // when its own node saw it; for people to read, never compared
    // message: one sentence more, for example why a program could not be started. signalled: the reason,
    // where no signal was sent; overdue: since when; hang: which rank does what, and which wait.
    std::string message;
    std::string error_message;            // what the worker wrote into its error file …
    std::string traceback;                // … and where it was then
    std::string hint;                     // what is known beyond that, for example of the kernel's OOM killer
    std::vector<std::string> last_lines;  // of its stderr, at most kMaxLastLines
    // witness: the rank of a worker that failed because of this one, else -1; see first_failure.hpp. All from
    // exit_code to hint, and last_lines, are then the witness's.
    int witness = -1;
    std::string accusation;  // "does not answer"; empty without one
    std::string testimony;   // the witness's own words; empty without one
    // others: what ranks did at that moment, before any was told to end; `left`: those that had not ended at
    // half of the grace. Empty where nothing was seen that tells something.
    std::vector<RanksDoing> others;
    std::vector<RanksDoing> left;
};
BOOST_DESCRIBE_STRUCT(Failure, (),
                      (kind, node_rank, host, rank, local_rank, pid, exit_code, signal, core_dumped,
                       unix_time_ms, message, error_message, traceback, hint, last_lines, witness, accusation,
                       testimony, others, left))
constexpr std::size_t limit_of(Of<&Failure::host>) { return kMaxHostText; }
constexpr std::size_t limit_of(Of<&Failure::last_lines>) { return kMaxLastLines; }
constexpr std::size_t limit_of(Of<&Failure::others>) { return kMaxDoings; }
constexpr std::size_t limit_of(Of<&Failure::left>) { return kMaxDoings; }
constexpr NumberRange range_of(Of<&Failure::node_rank>) { return kNodeOrNoneRange; }
constexpr NumberRange range_of(Of<&Failure::rank>) { return kRankOrNoneRange; }
constexpr NumberRange range_of(Of<&Failure::local_rank>) { return {-1, kMaxWorkersPerNode - 1}; }
constexpr NumberRange range_of(Of<&Failure::exit_code>) { return kExitCodeRange; }
constexpr NumberRange range_of(Of<&Failure::signal>) { return kSignalRange; }
constexpr NumberRange range_of(Of<&Failure::unix_time_ms>) { return kMillisecondRange; }
constexpr NumberRange range_of(Of<&Failure::witness>) { return kRankOrNoneRange; }

// Returns the exit code of a job that ended with this failure; never 0, whatever the failure says.
inline int exit_code_of(const Failure& failure) {
    if (failure.kind != Failure::Kind::signalled) return failed_code(failure.exit_code);
    return failure.signal >= 1 && failure.signal <= kMaxSignal ? kExitSignalBase + failure.signal
                                                               : kExitInternal;
}

// Says whether the failure agrees with itself: none has exit code 0.
inline bool is_sound(const Failure& failure) {
    switch (failure.kind) {
        case Failure::Kind::resized: return true;
        case Failure::Kind::signalled: return may_be_passed_on(failure.signal);
        case Failure::Kind::worker_failed:
        case Failure::Kind::node_lost:
        case Failure::Kind::overdue:
        case Failure::Kind::hang: break;
    }
    return failure.exit_code != 0;
}

inline constexpr std::size_t kMaxReasonText = 256;

// Restart is one restart of the job. Plain values.
struct Restart {
    int round = 0;  // the round that failed
    std::string reason;
    std::int64_t unix_time_ms = 0;  // the failure's, see Failure
};
BOOST_DESCRIBE_STRUCT(Restart, (), (round, reason, unix_time_ms))
constexpr std::size_t limit_of(Of<&Restart::reason>) { return kMaxReasonText; }
constexpr NumberRange range_of(Of<&Restart::round>) { return kCountRange; }
constexpr NumberRange range_of(Of<&Restart::unix_time_ms>) { return kMillisecondRange; }

// RankEnd says how one worker ended. Plain values.
struct RankEnd {
    enum class Manner {
        succeeded,  // exit code 0, without having been told to end
        // failed: by itself, as the first failure, or before ddprun had told it to end, even if that showed
        // only later.
        failed,
        stopped,  // after ddprun had told it to, by no signal but those that ddprun had sent
        lost,     // with its node: nothing is known
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

// Says whether the end agrees with itself: `succeeded` with code 0, `failed` with another.
inline bool is_sound(const RankEnd& end) {
    if (end.manner == RankEnd::Manner::succeeded) return end.exit_code == 0;
    return end.manner != RankEnd::Manner::failed || end.exit_code != 0;
}

}  // namespace job
}  // namespace ddprun
