#include "collectives/session.hpp"

#include "rendezvous/error.hpp"
#include "rendezvous/store_host.hpp"

namespace ddprun {

MeetingRoom::MeetingRoom() = default;
MeetingRoom::MeetingRoom(MeetingRoom&&) noexcept = default;
MeetingRoom& MeetingRoom::operator=(MeetingRoom&&) noexcept = default;
MeetingRoom::~MeetingRoom() = default;

Communicator::Session::Session() = default;

Communicator::Session::~Session() {
    const bool healthy = executor && !executor->ended();
    executor.reset();
    if (!room.join) return;
    try {
        room.join->say_gone();
        if (room.host && healthy) room.join->wait_for_others_gone(options.leave_timeout);
    } catch (const boost::system::system_error&) {
        // The store is gone before us; then nobody waits for this goodbye either.
    }
}

}  // namespace ddprun
