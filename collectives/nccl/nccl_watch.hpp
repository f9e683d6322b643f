// NcclWatch: sees to it that no operation on NCCL waits for ever. One per communicator, with a thread of its
// own.
//
// The thread looks after all operations in progress: when the other ranks bring news, a deadline passes, or
// NCCL or CUDA report an error (which it has to ask for), the communicator ends: first all ranks are told,
// then NCCL is aborted, and then all operations fail with the verdict. While nothing is in progress, it
// sleeps.
//
// Members may be called from any thread, but for stop() and the destructor.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "collectives/nccl/nccl_comm.hpp"
#include "collectives/nccl/nccl_peers.hpp"
#include "collectives/nccl/nccl_work.hpp"
#include "collectives/wire/event.hpp"

namespace ddprun::inline detail {

// How often NCCL and CUDA are asked for errors while operations are in progress.
inline constexpr std::chrono::milliseconds kNcclWatchPeriod{10};
// An operation that takes so long is compared with what the other ranks are in; then again after twice the
// time.
inline constexpr std::chrono::milliseconds kNcclCompareAfter{2000};

// NCCL reports the death of a peer as an error of its own; the lifeline knows who it was, and gets so long to
// say so.
inline constexpr std::chrono::milliseconds kNcclCauseTimeout{1000};
constexpr bool may_be_a_death(NcclResult result) noexcept {
    return result == NcclResult::remote_error || result == NcclResult::system_error;
}

class NcclWatch {
  public:
    NcclWatch(std::shared_ptr<NcclComm> comm, NcclPeers& peers);
    ~NcclWatch() { stop(); }

    // Set when the communicator has ended, before NCCL is aborted. See NcclWork.
    std::shared_ptr<const std::atomic<bool>> over() const noexcept { return over_; }

    // Call it before NCCL is called for the operation.
    void add(std::shared_ptr<NcclWork> work);
    // NCCL refused, or failed in, a call; CUDA did, which `text` tells.
    void failed(NcclResult result);
    void failed(const std::string& text);
    // Returns when nothing is in progress any more, by the operations' own deadlines at the latest; false if
    // that is later than `deadline`.
    bool drain(Deadline deadline);

    // Ends the thread. NCCL is aborted unless it has ended before, and whatever is still in progress fails.
    // False if NCCL does not let itself be aborted.
    bool stop();

    // An error of the communicator's end, with what else went wrong at it.
    CollectiveError completed(const CollectiveError& error) const;

  private:
    // An error of NCCL's that may be somebody's death, and until when the lifeline may tell.
    struct Unexplained {
        std::string text;
        Deadline deadline;
    };

    void run();
    // Ends what has ended; judges the rest. When to look again; nothing if there is no need to.
    std::optional<Deadline> look();
    std::shared_ptr<NcclWork> oldest();
    // Why this rank ends the communicator, unless the others' news come before that moment.
    std::optional<Deadline> judge_unexplained();
    void judge(NcclWork& work);
    void end(const Verdict& verdict);

    std::shared_ptr<NcclComm> comm_;
    NcclPeers& peers_;
    std::shared_ptr<std::atomic<bool>> over_;
    Event wake_;
    std::atomic<bool> asleep_{false};
    std::atomic<bool> stopping_{false};
    // The thread's alone:
    std::uint64_t compared_ = 0;  // the call, and when it is compared again
    Deadline compare_at_{};
    mutable std::mutex mutex_;  // guards what follows; never held while the peers are asked
    std::deque<std::shared_ptr<NcclWork>> works_;
    std::optional<Unexplained> unexplained_;
    Verdict verdict_;
    std::string note_;
    std::thread thread_;
};

}  // namespace ddprun::inline detail
