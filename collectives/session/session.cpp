#include "collectives/session/session.hpp"

#include <fmt/core.h>

#include <exception>
#include <utility>

#include "collectives/call/rank_list.hpp"
#include "rendezvous/store/store_host.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun::inline detail {

MeetingRoom MeetingRoom::later() const {
    MeetingRoom room;
    room.host = host;
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

Session::~Session() {
    const bool healthy = executor && !executor->ended();
    executor.reset();
    room.leave(healthy ? options.leave_timeout : std::chrono::milliseconds(0));
}

void Session::end_executor() {
    std::unique_ptr<Executor> ending;  // outlives the lock
    const std::lock_guard lock(end_mutex);
    ending = std::move(executor);
    lifeline = nullptr;
}

void Session::finalize(std::chrono::milliseconds timeout) {
    const Deadline deadline = Deadline::clock::now() + timeout;
    std::vector<int> missing;
    std::exception_ptr failure;
    try {
        missing = executor->leave(deadline);
    } catch (const CollectiveError&) {
        failure = std::current_exception();
    }
    end_executor();
    const bool healthy = !failure && missing.empty();
    room.leave(healthy ? time_until(deadline) : std::chrono::milliseconds(0));
    if (failure) std::rethrow_exception(failure);
    if (missing.empty()) return;
    throw CollectiveError(CollectiveErrorCode::timed_out,
                          fmt::format("finalize: these ranks have not come to theirs within {} ms: {}",
                                      timeout.count(), list_of_ranks(missing)),
                          missing, "finalize");
}

}  // namespace ddprun::inline detail
