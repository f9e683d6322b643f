// UnprovenCalls: connections that have not shown yet that they are of the job, and which of them goes when there are too
// many. Pure; owned by PortCalls.
//
// PyTorch's clients that never speak are not among them: they call from a machine of the round, and do not begin as an agent
// does.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <list>
#include <optional>

namespace ddprun::inline job {

class UnprovenCalls {
  public:
    using Id = std::uint64_t;

    static constexpr std::size_t kMost = 256;
    static constexpr std::size_t kMostOfOneSource = 32;

    explicit UnprovenCalls(std::size_t most = kMost) : most_(most) {}

    // A new one; of a source that is not told any number may come. The returned one has to go, and counts no longer: the
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

}  // namespace ddprun::inline job
