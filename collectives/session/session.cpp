#include "collectives/session/session.hpp"

#include <fmt/core.h>

#include <exception>
#include <utility>

#include "collectives/call/call.hpp"
#include "collectives/call/checked_task.hpp"
#include "collectives/call/run_beside.hpp"
#include "collectives/error.hpp"
#include "collectives/messages/messenger.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/store/store_host.hpp"

namespace ddprun {
inline namespace detail {

MeetingRoom MeetingRoom::later() const {
    MeetingRoom room;
    room.host = host;
    room.rank_0_hosts = rank_0_hosts;
    room.reopen = reopen;
    return room;
}

void MeetingRoom::leave(std::chrono::milliseconds timeout) {
    try {
        if (departure) departure->say_gone();
        if (departure && host) departure->wait_for_others(timeout);
    } catch (const boost::system::system_error&) {
        // The store is gone before us; then nobody waits for this goodbye either.
    }
    departure.reset();
    store.reset();
    host.reset();
}

void EndWatch::add(Call ended) {
    const std::lock_guard lock(mutex_);
    if (!told_) return calls_.push_back(std::move(ended));
    run_beside([ended = std::move(ended), status = *told_] { ended(status); });
}

void EndWatch::tell(const Status& status) {
    const std::lock_guard lock(mutex_);
    if (told_) return;
    told_ = status;
    for (Call& ended : calls_) run_beside([ended = std::move(ended), status] { ended(status); });
    calls_.clear();
}

Status Session::status() const {
    const auto verdict = executor ? executor->verdict() : std::nullopt;
    return verdict ? Status(CollectiveError(verdict->code, verdict->text, verdict->culprits)) : Status();
}

Session::~Session() {
    const bool healthy = executor && !executor->ended();
    // After what was started.
    if (messenger && executor) executor->close(*messenger, Deadline::clock::now() + options.leave_timeout);
    end_executor();
    if (messenger) messenger->disconnect();
    room.leave(healthy ? options.leave_timeout : std::chrono::milliseconds(0));
}

void Session::end_executor() {
    std::unique_ptr<Executor> ending;  // outlives the lock
    const std::lock_guard lock(end_mutex);
    end_watch->tell(status());
    ending = std::move(executor);
    lifeline = nullptr;
}

void Session::finalize(std::chrono::milliseconds timeout) {
    if (ending.exchange(true)) refuse("finalize", kFinalized);
    const Deadline deadline = Deadline::clock::now() + timeout;
    std::vector<int> missing;
    std::exception_ptr failure;
    try {
        missing = executor->leave(deadline, messenger.get());
    } catch (const CollectiveError&) {
        failure = std::current_exception();
    }
    // This one counts, too.
    for (int others = calls; others > 1; others = calls) calls.wait(others);
    end_executor();
    if (messenger) messenger->disconnect();
    const bool healthy = !failure && missing.empty();
    room.leave(healthy ? time_until(deadline) : std::chrono::milliseconds(0));
    if (failure) std::rethrow_exception(failure);
    if (missing.empty()) return;
    throw CollectiveError(CollectiveErrorCode::timed_out,
                          fmt::format("finalize: these ranks have not come to theirs within {} ms: {}",
                                      timeout.count(), list_of_ranks(missing)),
                          missing, "finalize");
}

}  // namespace detail
}  // namespace ddprun
