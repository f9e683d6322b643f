// UnprovenCalls says which unproven connection goes when there are too many. Pure; owned by PortCalls.
// PyTorch's clients that never speak are not among them: they call from a machine of the round, and do not
// begin as an agent does.
#pragma once

#include <boost/asio/ip/address.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>

namespace ddprun {
inline namespace job {

class UnprovenCalls {
  public:
    using Id = std::uint64_t;

    static constexpr std::size_t kMost = 256;
    static constexpr std::size_t kMostOfOneSource = 32;

    explicit UnprovenCalls(std::size_t most = kMost) : most_(most) {}

    // Adds a new call; without a source any number may come. Returns the call that has to go, which counts no
    // longer: the oldest that has said nothing, else the oldest. Where one source has too many calls, one of
    // that source goes. `has_said` (may be empty) tells whether a call that would have to go as silent has
    // sent bytes that were not read yet.
    std::optional<Id> add(Id id, const std::optional<boost::asio::ip::address>& source,
                          const std::function<bool(Id)>& has_said = {});
    void speaks(Id id);
    // Removes a call; no effect on one that had to go.
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

}  // namespace job
}  // namespace ddprun
