// The job's port counts the connections that it has taken, and knows which of them have yet to show that they are of the job.
//
// A caller is unproven as long as all that he has said may have been heard elsewhere, or may be anybody's: until his first
// message is whole, in a record that has opened where there is a key, and the coordinator has taken him for it. Who is
// unproven has little time, and goes when there are too many.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "rendezvous/server/caller_gate.hpp"

namespace ddprun::inline job {

// UnprovenCalls says which of the connections that have not shown yet that they are of the job goes when there are too many.
// Pure; owned by PortCalls. PyTorch's clients that never speak are not among them: they call from a machine of the round,
// and do not begin as an agent does.
class UnprovenCalls {
  public:
    using Id = std::uint64_t;

    static constexpr std::size_t kMost = 256;
    static constexpr std::size_t kMostOfOneSource = 32;

    explicit UnprovenCalls(std::size_t most = kMost) : most_(most) {}

    // Adds a new one; any number may come of a source that is not told. The returned one has to go, and counts no longer: the
    // oldest that has said nothing, else the oldest; of the same source where that has too many.
    std::optional<Id> add(Id id, const std::optional<boost::asio::ip::address>& source);
    void speaks(Id id);
    // No effect on one that had to go.
    void remove(Id id);

    std::size_t size() const { return calls_.size(); }

  private:
    struct Call {
        Id id;
        std::optional<boost::asio::ip::address> source;
        bool is_silent = true;
    };

    std::size_t most_;
    std::list<Call> calls_;  // the oldest first
};

class PortCall;

// PortCalls counts them from then to their end, whoever serves them. Owned by PortService and by its calls; on the port's
// thread, but for what PortCall says.
class PortCalls : public std::enable_shared_from_this<PortCalls> {
  public:
    static constexpr std::chrono::seconds kUnprovenTime{5};
    // So many bytes of first messages may wait that are whole, and that the coordinator has yet to look at.
    static constexpr std::size_t kMaxWaitingBytes = std::size_t{16} << 20;

    PortCalls(boost::asio::any_io_executor executor, const ConnectionLimit& limit);

    // Takes one more; null: there are too many.
    std::shared_ptr<PortCall> take();
    std::optional<std::string> tell_full() { return limit_.tell_full(); }

  private:
    friend class PortCall;
    using Id = UnprovenCalls::Id;
    struct Call {
        std::optional<boost::asio::ip::address> source;
        std::function<void()> close;                          // as long as it is unproven
        std::optional<boost::asio::steady_timer> deadline{};  // as long as that
        std::size_t waiting = 0;                              // bytes, see above
    };

    void doubt(Id id);
    void trust(Id id);
    void settle(Id id, bool is_taken, std::function<void()> close);
    void forget(Id id);

    boost::asio::any_io_executor executor_;
    ConnectionLimit limit_;
    UnprovenCalls unproven_;
    std::unordered_map<Id, Call> calls_;
    std::size_t waiting_ = 0;
    Id last_ = 0;
};

// PortCall is one connection's part of it, kept as long as its descriptor is open; it may end on any thread.
class PortCall {
  public:
    PortCall(std::shared_ptr<PortCalls> calls, PortCalls::Id id) : calls_(std::move(calls)), id_(id) {}
    ~PortCall();
    PortCall(const PortCall&) = delete;
    PortCall& operator=(const PortCall&) = delete;

    // He is unproven. `source`: nothing of one of our own user's, of whom any number may come. `close` is called when he has
    // to go.
    void doubt(const std::optional<boost::asio::ip::address>& source, std::function<void()> close);
    void speaks();
    // He is not unproven any more, or is no agent.
    void trust();
    // His first message, of so many bytes, goes to the coordinator, and he need not go before it has been looked at; false:
    // too many bytes wait for that.
    bool is_put_forward(std::size_t bytes);
    // Says, on any thread, what has come of it: a caller that was not taken is unproven again. `close` is called on the port's thread.
    void settle(bool is_taken, std::function<void()> close);

  private:
    std::shared_ptr<PortCalls> calls_;
    PortCalls::Id id_;
};

}  // namespace ddprun::inline job
