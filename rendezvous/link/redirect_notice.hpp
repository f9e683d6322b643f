// RedirectNotice tells an agent that begins the job again at its old address that the job runs elsewhere.
//
// After a takeover the coordinator is not where the command lines say. An agent that comes back to that
// address hosts a coordinator, and others come to it. The notice calls there once in each period, as long as
// it lives, and says where the job is. With several ports it calls at each where such an agent may be. No
// event tells when a process listens there, hence this is one of the few places that poll. Owned by the
// RendezvousLink of the agent that hosts; used on the thread of `executor`.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/system/secret_key.hpp"

namespace ddprun {
inline namespace job {

class RedirectNotice {
  public:
    // kPeriod: from one call to the next.
    static constexpr std::chrono::milliseconds kPeriod{1'000};
    // kCallTimeout: for one call, the resolver's time included.
    static constexpr std::chrono::milliseconds kCallTimeout{3'000};

    // RedirectNotice begins to call. `key`: the job's, which the listener there must have; nothing: the word
    // is said in clear.
    RedirectNotice(const boost::asio::any_io_executor& executor, std::vector<Endpoint> old_places,
                   const JobMoved& word, const std::optional<SecretKey>& key);
    ~RedirectNotice();

  private:
    class Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace job
}  // namespace ddprun
