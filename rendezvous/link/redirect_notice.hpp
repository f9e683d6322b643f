// RedirectNotice tells who begins the job again at its old address that it runs elsewhere.
//
// After a takeover the coordinator is not where the command lines say. An agent that comes back to that address hosts a
// coordinator, and others come to it. The notice calls there once in each period, as long as it lives, at each of several
// ports where such an agent may be, and says where the job is. Nothing tells when somebody listens there, so this is one of
// the few places that poll. Owned by the RendezvousLink of the agent that hosts; on the thread of `executor`.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/system/secret_key.hpp"

namespace ddprun::inline job {

class RedirectNotice {
  public:
    // `key`: the job's, which who listens there must have; nothing: the word is said in clear.
    static constexpr std::chrono::milliseconds kPeriod{1'000};
    // One call, the resolver's time included.
    static constexpr std::chrono::milliseconds kCallTimeout{3'000};

    RedirectNotice(const boost::asio::any_io_executor& executor, std::vector<Endpoint> old_places,
                   const JobMoved& word, const std::optional<SecretKey>& key);
    ~RedirectNotice();

  private:
    class Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::inline job
