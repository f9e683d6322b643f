#include "collectives/session/session.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "collectives/call/rank_list.hpp"
#include "rendezvous/store/store_host.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun {

MeetingRoom::MeetingRoom() = default;
MeetingRoom::MeetingRoom(MeetingRoom&&) noexcept = default;
MeetingRoom& MeetingRoom::operator=(MeetingRoom&&) noexcept = default;
MeetingRoom::~MeetingRoom() = default;

MeetingRoom MeetingRoom::later() const {
    MeetingRoom room;
    room.host = host;
    room.reopen = reopen;
    return room;
}

MeetingRoom MeetingRoom::another(std::chrono::milliseconds patience) const {
    MeetingRoom room = later();
    room.store = reopen(patience);
    return room;
}

void MeetingRoom::leave(std::chrono::milliseconds patience) {
    try {
        if (farewell) farewell->say_gone();
        if (farewell && host) farewell->wait_for_others(patience);
    } catch (const boost::system::system_error&) {
        // The store is gone before us; then nobody waits for this goodbye either.
    }
    farewell.reset();
    store.reset();
    host.reset();
}

Session::Session() = default;

Session::~Session() {
    const bool healthy = executor && !executor->ended();
    executor.reset();
    room.leave(healthy ? options.leave_timeout : std::chrono::milliseconds(0));
}

void Session::end_executor() {
    std::unique_ptr<Executor> ending;
    const std::lock_guard lock(end_mutex);
    ending = std::move(executor);
    lifeline = nullptr;
}

void Session::finalize(std::chrono::milliseconds patience) {
    using Clock = std::chrono::steady_clock;
    const auto limit = Clock::now() + patience;
    std::vector<int> missing;
    std::exception_ptr failure;
    try {
        missing = executor->leave(limit);
    } catch (const CollectiveError&) {
        failure = std::current_exception();
    }
    end_executor();
    const bool healthy = !failure && missing.empty();
    const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now());
    room.leave(healthy ? std::max(rest, std::chrono::milliseconds(0)) : std::chrono::milliseconds(0));
    if (failure) std::rethrow_exception(failure);
    if (missing.empty()) return;
    throw CollectiveError(CollectiveErrorCode::timed_out,
                          "finalize: these ranks have not come to theirs within " +
                              std::to_string(patience.count()) + " ms: " + list_of_ranks(missing),
                          missing, "finalize");
}

}  // namespace ddprun
