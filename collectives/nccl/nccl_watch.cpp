#include "collectives/nccl/nccl_watch.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun::inline detail {
namespace {

// The thread goes on looking for so long after the last operation, because being woken costs the caller more
// than a small operation.
constexpr std::chrono::milliseconds kStayAwake{1000};

}  // namespace

NcclWatch::NcclWatch(std::shared_ptr<NcclComm> comm, NcclPeers& peers)
    : comm_(std::move(comm)), peers_(peers), over_(std::make_shared<std::atomic<bool>>(false)) {
    peers_.on_news([this] { wake_.signal(); });
    thread_ = start_without_signals([this] { run(); });
}

bool NcclWatch::stop() {
    if (thread_.joinable()) {
        peers_.on_news({});
        stopping_ = true;
        wake_.signal();
        thread_.join();
    }
    if (!*over_) {
        end({CollectiveErrorCode::aborted,
             {peers_.rank()},
             fmt::format("rank {} destroyed its communicator meanwhile", peers_.rank())});
    }
    return comm_->abort();
}

void NcclWatch::add(std::shared_ptr<NcclWork> work) {
    {
        const std::lock_guard lock(mutex_);
        // The end has been looked for among the works before; this one would wait for ever.
        if (*over_) return work->fail(error_of(verdict_, work->call()));
        works_.push_back(std::move(work));
    }
    if (asleep_.exchange(false)) wake_.signal();
}

void NcclWatch::failed(NcclResult result) {
    const std::string text = comm_->describe(result);
    if (!may_be_a_death(result)) return failed(text);
    {
        const std::lock_guard lock(mutex_);
        if (unexplained_) return;
        unexplained_ = {text, Deadline::clock::now() + kNcclCauseTimeout};
    }
    wake_.signal();
}

void NcclWatch::failed(const std::string& text) {
    peers_.declare({CollectiveErrorCode::system,
                    {peers_.rank()},
                    fmt::format("NCCL on rank {}: {}", peers_.rank(), text)});
    wake_.signal();
}

bool NcclWatch::drain(Deadline deadline) {
    while (const auto work = oldest()) {
        if (!work->wait_until(deadline)) return false;
    }
    return true;
}

CollectiveError NcclWatch::completed(const CollectiveError& error) const {
    const std::lock_guard lock(mutex_);
    if (note_.empty()) return error;
    return {error.code(), error.what() + note_, error.culprits(), error.operation(), error.sequence()};
}

void NcclWatch::run() {
    auto last_busy = Deadline::clock::now();
    while (true) {
        wake_.clear();
        if (stopping_) return;
        auto next = look();
        if (next) {
            last_busy = Deadline::clock::now();
        } else if (!*over_ && Deadline::clock::now() < last_busy + kStayAwake) {
            next = Deadline::clock::now() + kNcclWatchPeriod;
        } else {
            asleep_ = true;
            // One may have come before it could see that this thread sleeps.
            if (oldest() && asleep_.exchange(false)) continue;
        }
        wake_.wait(next);
    }
}

std::optional<Deadline> NcclWatch::look() {
    if (*over_) return std::nullopt;
    if (const auto verdict = peers_.verdict()) {
        end(*verdict);
        return std::nullopt;
    }
    const auto unexplained = judge_unexplained();
    const auto work = oldest();
    if (!work) return unexplained;
    judge(*work);
    // A deadline that has passed was judged, unless the mesh was in use: then again after a while.
    const auto now = Deadline::clock::now();
    auto next = now + kNcclWatchPeriod;
    if (work->deadline() > now) next = std::min(next, work->deadline());
    return unexplained ? std::min(next, *unexplained) : next;
}

std::optional<Deadline> NcclWatch::judge_unexplained() {
    std::string text;
    {
        const std::lock_guard lock(mutex_);
        if (!unexplained_) return std::nullopt;
        if (!has_passed(unexplained_->deadline)) return unexplained_->deadline;
        text = unexplained_->text;
    }
    failed(text);
    return Deadline::clock::now();
}

std::shared_ptr<NcclWork> NcclWatch::oldest() {
    const std::lock_guard lock(mutex_);
    while (!works_.empty() && works_.front()->ended()) works_.pop_front();
    return works_.empty() ? nullptr : works_.front();
}

void NcclWatch::judge(NcclWork& work) {
    const auto now = Deadline::clock::now();
    const Call& call = work.call();
    if (const auto state = comm_->state();
        state && *state != NcclResult::success && *state != NcclResult::in_progress) {
        return failed(*state);
    }
    if (const auto error = work.event_error()) {
        return failed("the stream's end: " + comm_->context().driver().text_of(*error));
    }
    if (now >= work.deadline()) {
        peers_.blame(call, work.peers());
        return;
    }
    peers_.check_present(call, work.peers(), work.started());
    if (compared_ != call.sequence) {
        compared_ = call.sequence;
        compare_at_ = work.started() + kNcclCompareAfter;
    }
    if (now < compare_at_) return;
    if (peers_.check_agreement(call)) compare_at_ = now + (now - work.started());
}

void NcclWatch::end(const Verdict& verdict) {
    {
        const std::lock_guard lock(mutex_);
        verdict_ = verdict;
        *over_ = true;
    }
    std::string note;
    if (!comm_->abort()) {
        note = fmt::format(
            "; besides, NCCL has not let itself be aborted within {} s: this process may not be able "
            "to end, and is left to the launcher to kill",
            kNcclAbortTimeout / std::chrono::seconds(1));
    }
    const std::lock_guard lock(mutex_);
    note_ = note;
    Verdict told = verdict;
    told.text += note;
    for (const auto& work : works_) work->fail(error_of(told, work->call()));
    works_.clear();
}

}  // namespace ddprun::inline detail
