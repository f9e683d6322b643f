// open_session and open_session_from: from an environment or a URL to the store in which the ranks meet, and
// to a communicator's session.
//
// The layers below know neither environment nor URLs; the layers above know no stores. Blocking; called by
// the thread that makes the communicator. Throws CollectiveError only.
#pragma once

#include <memory>
#include <string>

#include "collectives/key_value_store.hpp"
#include "collectives/nccl/nccl_join.hpp"
#include "collectives/options.hpp"
#include "collectives/session/place.hpp"
#include "collectives/session/session.hpp"
#include "collectives/shm/shm_segment.hpp"
#include "collectives/wire/membership.hpp"
#include "rendezvous/store/store.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace detail {

// Returns the program's store as a Store. The compare_set() is decided by the program's add(), and atomic
// only if that is.
std::shared_ptr<Store> store_over(std::shared_ptr<KeyValueStore> given);

// Makes a session over a store that the caller has made; the listening address is given (numeric). The
// session keeps the store. For two ranks or more.
std::unique_ptr<Session> open_session(std::shared_ptr<Store> store, const std::string& listen_address,
                                      const Place& place, const CommunicatorOptions& options);

// Throws invalid_argument that names the timeout which is out of range.
void require_valid(const CommunicatorOptions& options);

// Meets the others at `meeting`; hosts the store if this rank has to. A rank alone needs no meeting.
std::unique_ptr<Session> open_session(const Meeting& meeting, const Place& place,
                                      const CommunicatorOptions& options);

// Connects the ranks of `membership`, two at least, which have found each other already. `listener` is the
// one that the membership names for this rank; none where the communicator they come from, in `origin`, has
// it. `gather`: by which the ranks of a host agree on their memory before they connect; empty: they agree
// afterwards, over their connections.
std::unique_ptr<Session> open_session(Membership membership, std::optional<TcpListener> listener,
                                      Transport transport, const std::optional<NcclSettings>& nccl,
                                      const CommunicatorOptions& options, Deadline deadline,
                                      const Origin& origin = {}, const ShmGather& gather = {});

// Makes the session of one rank without peers.
std::unique_ptr<Session> open_session_alone(const std::optional<NcclSettings>& nccl,
                                            const CommunicatorOptions& options);

std::unique_ptr<Session> open_session_from(const Environment& environment,
                                           const CommunicatorOptions& options);

}  // namespace detail
}  // namespace ddprun
