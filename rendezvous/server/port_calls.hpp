// PortCalls counts the connections that the job's port has taken, and knows which of them have yet to show
// that they are of the job.
//
// A caller is unproven as long as all that it has said could be a repetition, or come from any program. The
// doubt ends when its first message is complete, and the coordinator has accepted the caller. With a key, the
// message must also open with it. An unproven caller has little time, and goes when there are too many.
//
// PortCalls counts connections from PortService's take() to their end, whatever serves them. Owned by
// PortService and by its calls; used on the port's thread, but for what PortCall says.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "rendezvous/server/caller_gate.hpp"
#include "rendezvous/server/unproven_calls.hpp"

namespace ddprun {
inline namespace job {

class PortCall;

class PortCalls : public std::enable_shared_from_this<PortCalls> {
  public:
    static constexpr std::chrono::seconds kUnprovenTime{5};
    // kMaxWaitingBytes: bytes of whole first messages that may wait for the coordinator to look at them.
    static constexpr std::size_t kMaxWaitingBytes = std::size_t{16} << 20;

    PortCalls(boost::asio::any_io_executor executor, const ConnectionLimit& limit);

    // Takes one more call, perhaps in place of the one that has been silent longest; null: there are too
    // many.
    std::shared_ptr<PortCall> take();
    bool is_full() const { return !limit_.has_room(calls_.size() - going_); }
    std::optional<std::string> tell_full() { return limit_.tell_full(); }

  private:
    friend class PortCall;
    using Id = UnprovenCalls::Id;
    struct Call {
        std::optional<boost::asio::ip::address> source;
        std::function<void()> close;       // as long as the call is unproven
        std::function<bool()> has_said{};  // as long as nothing of the call was taken; may be empty
        std::optional<boost::asio::steady_timer> deadline{};  // as long as that
        std::size_t waiting = 0;  // bytes of the first message, see kMaxWaitingBytes
        bool is_going = false;    // the call has made room
    };
    struct Silent {
        std::function<void()> close;
        std::function<bool()> has_said;
    };

    bool make_room();
    void doubt(Id id);
    void trust(Id id);
    void settle(Id id, bool is_taken, std::function<void()> close);
    void forget(Id id);

    boost::asio::any_io_executor executor_;
    ConnectionLimit limit_;
    UnprovenCalls unproven_;
    std::unordered_map<Id, Call> calls_;
    std::map<Id, Silent> silent_;  // that need say nothing as long as there is room, the oldest first
    std::size_t going_ = 0;
    std::size_t waiting_ = 0;
    Id last_ = 0;
};

// PortCall: one connection's part of PortCalls, kept as long as its descriptor is open; it may end on any
// thread.
class PortCall {
  public:
    PortCall(std::shared_ptr<PortCalls> calls, PortCalls::Id id) : calls_(std::move(calls)), id_(id) {}
    ~PortCall();
    PortCall(const PortCall&) = delete;
    PortCall& operator=(const PortCall&) = delete;

    // Makes the caller unproven. `source`: nothing for processes of our own user, of which any number may
    // come. `close` is called when the caller has to go; before that `has_said` tells whether there is
    // something to read.
    void doubt(const std::optional<boost::asio::ip::address>& source, std::function<void()> close,
               std::function<bool()> has_said = {});
    // Lets the caller say nothing as long as there is room. The functions are called as in doubt().
    void may_be_silent(std::function<void()> close, std::function<bool()> has_said);
    void speaks();
    // Ends the doubt: the caller is unproven no longer, or is no agent.
    void trust();
    // Returns whether the caller's first message, of `bytes` bytes, may go to the coordinator; the caller
    // need not go before that has looked at it. False: too many bytes wait for the coordinator.
    bool is_put_forward(std::size_t bytes);
    // Tells, on any thread, what has come of that message: a caller that was not taken is unproven again.
    // `close` is called on the port's thread.
    void settle(bool is_taken, std::function<void()> close);

  private:
    std::shared_ptr<PortCalls> calls_;
    PortCalls::Id id_;
};

}  // namespace job
}  // namespace ddprun
