#include "collectives/session/bootstrap.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <thread>
#include <variant>

#include "collectives/error.hpp"
#include "collectives/hosts/hosts_backend.hpp"
#include "collectives/messages/host_surroundings.hpp"
#include "collectives/messages/transfers.hpp"
#include "collectives/nccl/nccl_join.hpp"
#include "collectives/session/claim.hpp"
#include "collectives/session/departure.hpp"
#include "collectives/session/executor.hpp"
#include "collectives/session/host_identity.hpp"
#include "collectives/session/joining.hpp"
#include "collectives/session/session.hpp"
#include "collectives/shm/shm_backend.hpp"
#include "collectives/tcp/flow.hpp"
#include "collectives/tcp/peer_mesh.hpp"
#include "collectives/tcp/tcp_backend.hpp"
#include "collectives/wire/host_settings.hpp"
#include "rendezvous/base/check.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/store/file_store.hpp"
#include "rendezvous/store/store_host.hpp"
#include "rendezvous/store/tcp_store.hpp"
#include "rendezvous/worker/life_table.hpp"
#include "rendezvous/worker/mpirun_machine.hpp"

namespace ddprun {
inline namespace detail {
namespace {

// How long rank 0 tries to use a store that already listens where it wanted to host one.
constexpr std::chrono::milliseconds kExistingStoreTimeout{5000};
// Ranks speak at once. More silent connections would take the descriptors of rank 0's own.
constexpr std::size_t kMostNewcomers = 256;
constexpr std::chrono::milliseconds kRejoinPause{50};
// How long a rank that lost the store of rank 0 looks for a new one there.
constexpr std::chrono::milliseconds kRejoinTimeout{5000};

// Turns what the store and the sockets throw into the library's own errors.
CollectiveError translated(const boost::system::system_error& error) {
    auto code = CollectiveErrorCode::system;
    if (error.code() == make_error_code(Errc::timed_out)) code = CollectiveErrorCode::timed_out;
    if (error.code() == make_error_code(Errc::malformed)) code = CollectiveErrorCode::invalid_argument;
    return CollectiveError(code, fmt::format("join: {}", error.what()), {}, "join");
}

// Returns where the other ranks reach this one; `usual` unless the settings say otherwise.
std::string listen_address(const HostSettings& settings, const std::string& usual) {
    return settings.chooses_address() ? choose_address(settings, local_addresses(), usual) : usual;
}

bool is_loopback(const std::string& address) { return address == "::1" || address.rfind("127.", 0) == 0; }

// Debian maps a machine's own name to 127.0.1.1, which nobody else
// can reach: then the address towards the outside is taken. A plain loopback address was meant as one.
std::string address_towards(const std::string& host) {
    const std::string address = source_address(host);
    const bool meant = address == "127.0.0.1" || address == "::1" || !is_loopback(address);
    return meant ? address : default_source_address();
}

// The address of this node as ddprun says it, else the one that carried the rendezvous, be it through
// ddprun's door on loopback. What ddprun says may be left over from the job around this one: on another
// machine, or of one node.
std::string address_of(const Place& place, const std::string& host) {
    const std::string usual = address_towards(host);
    try {
        const auto own = local_addresses();
        const bool is_own = std::any_of(own.begin(), own.end(), [&](const LocalAddress& local) {
            return local.address == place.node_addr;
        });
        if (is_own && (is_loopback(usual) || !is_loopback(place.node_addr))) return place.node_addr;
        if (is_loopback(usual) && !place.host_addr.empty()) return address_towards(place.host_addr);
    } catch (const boost::system::system_error&) {
        // The usual address has to do.
    }
    return usual;
}

std::string address_of(const Place& place, const StoreMeeting& meeting) {
    try {
        if (!meeting.towards.empty()) return address_of(place, meeting.towards);
    } catch (const boost::system::system_error&) {
        // The store was reached by other means than this name.
    }
    return default_source_address();
}

// A launcher's store is there before its workers are: who waits for it waits for something else.
void say_waiting_for_store(int rank, const Endpoint& store, const std::string& cause) {
    const std::string line = fmt::format("rank {} waits for the store at {} (MASTER_ADDR, MASTER_PORT): {}\n",
                                         rank, to_string(store), cause);
    std::fputs(line.c_str(), stderr);
}

MeetingRoom enter_tcp(const TcpMeeting& meeting, const Place& place, Deadline deadline) {
    const auto rest = time_until(deadline);
    MeetingRoom room;
    room.rank_0_hosts = meeting.rank_0_hosts;
    room.reopen = [endpoint = meeting.endpoint](std::chrono::milliseconds timeout) {
        return std::make_shared<TcpStore>(endpoint, timeout);
    };
    if (!meeting.rank_0_hosts || place.rank != 0) {
        room.store = std::make_shared<TcpStore>(meeting.endpoint, rest, [&](const std::string& cause) {
            say_waiting_for_store(place.rank, meeting.endpoint, cause);
        });
        return room;
    }
    try {
        const bool local = is_loopback(meeting.endpoint.host) || meeting.endpoint.host == "localhost";
        StoreLimits limits;
        limits.newcomers = kMostNewcomers;
        room.host = std::make_shared<StoreHost>(local ? ListenScope::loopback : ListenScope::any,
                                                meeting.endpoint.port, limits);
    } catch (const boost::system::system_error& taken) {
        if (taken.code() != make_error_code(Errc::address_in_use)) throw;
        // An earlier communicator of this process may host it. A store of another job refuses this rank when
        // it joins.
        try {
            room.store = std::make_shared<TcpStore>(meeting.endpoint, std::min(rest, kExistingStoreTimeout));
        } catch (const boost::system::system_error&) {
            throw taken;
        }
        return room;
    }
    room.store = std::make_shared<TcpStore>(meeting.endpoint, rest);
    return room;
}

CollectiveError store_gone(const boost::system::system_error& lost) {
    return CollectiveError(CollectiveErrorCode::peer_died,
                           fmt::format("join: rank 0, which hosts the store, is gone: {}", lost.what()), {0},
                           "join");
}

bool is_lost(const boost::system::system_error& error) {
    return error.code() == make_error_code(Errc::connection_lost) ||
           error.code() == make_error_code(Errc::closed);
}

PeerMesh::Operation joining_until(Deadline deadline, const CommunicatorOptions& options) {
    return {{Operation::join}, deadline, {options.join_timeout, "CommunicatorOptions::join_timeout"}};
}

// SoloBackend: the operations of a communicator of one rank, which are copies. Needs no store, no sockets, no
// thread.
class SoloBackend final : public Backend {
  public:
    // There is no peer: Communicator refuses send and recv before they come here.
    void run(const Task& task) override {
        {
            const std::lock_guard lock(mutex_);
            Call call = task.call;
            call.sequence = ++sequence_;
            if (verdict_) throw error_of(*verdict_, call);
        }
        const Operation operation = task.call.operation;
        check(operation != Operation::none && operation != Operation::join && !is_point_to_point(operation),
              "no operation for a rank alone");
        const bool parts = task.parts != nullptr;
        copy_bytes(parts ? output_part(task, 0) : task.out, parts ? input_part(task, 0) : task.in,
                   bytes_of(task));
    }

    std::vector<int> leave(Deadline) override {
        if (const auto ended = verdict()) throw error_of(*ended, "finalize");
        return {};
    }

    void abort(const std::string& reason) override {
        const std::lock_guard lock(mutex_);
        if (!verdict_) verdict_ = abort_verdict(0, reason);
    }

    std::optional<Verdict> verdict() const override {
        const std::lock_guard lock(mutex_);
        return verdict_;
    }

  private:
    std::uint64_t sequence_ = 0;
    mutable std::mutex mutex_;  // guards the verdict: abort() comes from any thread
    std::optional<Verdict> verdict_;
};

// Makes what carries out the operations of `session`, whose settings are there already.
std::unique_ptr<Backend> connect(Session& session, Membership membership, std::optional<TcpListener> listener,
                                 const PeerMesh::Operation& joining, Origin origin, const ShmGather& gather,
                                 MessengerPlace& messages, TcpBackend*& made) {
    const CommunicatorOptions& options = session.options;
    const auto across = ranks_across_hosts(membership);
    const bool shares = across && ranks_of_host(membership).size() > 1;
    const bool wanted = session.transport == Transport::automatic;
    std::optional<ShmSegment> segment;
    if (gather && shares) {
        origin.meet = [&, meet = std::move(origin.meet)](const Membership& members) {
            meet(members);
            segment = hand_over_segment(members, wanted, gather);
        };
    }
    auto tcp = std::make_unique<TcpBackend>(std::move(membership), std::move(listener), joining,
                                            options.operation_timeout, origin);
    PeerMesh& mesh = tcp->mesh();
    session.lifeline = &mesh.lifeline();
    mesh.give_notice_after(options.notice_after);
    if (!gather && shares) {
        try {
            segment = hand_over_segment(mesh.membership(), wanted, [&](const ShmWord& word) {
                return gather_over_mesh(mesh, word, joining);
            });
        } catch (const LinkLost& lost) {
            mesh.fail_lost(lost, joining);
        }
    }
    session.shares_memory = segment.has_value();
    if (session.nccl) {
        auto peers =
            std::make_unique<NcclPeers>(std::move(tcp), std::move(segment), options.operation_timeout);
        return join_nccl(std::move(peers), *session.nccl, joining);
    }
    messages = {&tcp->membership(), segment ? segment->messages() : nullptr, tcp->mesh().spins()};
    made = tcp.get();
    if (!segment) return tcp;
    if (across->size() == 1)
        return std::make_unique<ShmBackend>(std::move(*segment), std::move(tcp), joining);
    return make_hosts_backend(std::move(*segment), std::move(tcp));
}

MeetingRoom room_of(std::shared_ptr<Store> store) {
    MeetingRoom room;
    room.reopen = [store](std::chrono::milliseconds) { return store; };
    room.store = std::move(store);
    return room;
}

std::unique_ptr<Session> join_in(MeetingRoom room, const std::string& address, const Place& place,
                                 const CommunicatorOptions& options, Deadline deadline) {
    TcpListener listener(address, place.host.ports);
    const std::string& host_id = place.host.host_id;
    auto news = place.life ? DeathNews::open(*place.life) : nullptr;
    const Member self{listener.endpoint(),         host_id.empty() ? host_identity() : host_id,
                      place.host.sockets_per_peer, news ? news->life() : 0,
                      place.own_numbers,           host_id.empty() ? memory_numbers() : std::string()};
    Joined joined = join_through(
        *room.store, {place.rank, place.world_size, place.round, own_claim(host_identity())}, self, deadline);
    joined.membership.own_numbers = std::ranges::any_of(joined.membership.members, &Member::own_numbers);
    joined.membership.mesh_key = place.mesh_key;
    if (room.rank_0_hosts) room.departure = std::make_unique<Departure>(std::move(joined.departure));
    auto session = open_session(std::move(joined.membership), std::move(listener), place.transport,
                                place.nccl, options, deadline, {.death_news = std::move(news)});
    if (const auto notice = notice_of_containers(session->lifeline->membership(), session->shares_memory);
        notice && place.transport == Transport::automatic)
        std::fputs((*notice + '\n').c_str(), stderr);
    if (place.local_rank >= 0) session->local_rank = place.local_rank;
    if (place.local_world_size > 0) session->local_world_size = place.local_world_size;
    session->ports = place.host.ports;
    session->room = std::move(room);
    return session;
}

void require_valid_place(const Place& place, const CommunicatorOptions& options) {
    if (place.world_size < 1) refuse("join", fmt::format("world_size {} is below 1", place.world_size));
    if (place.rank < 0 || place.rank >= place.world_size)
        refuse("join", fmt::format("rank {} is not below world_size {}", place.rank, place.world_size));
    require_valid(options);
}

// The ranks of an mpirun meet on its machine, since all of them are told which one that is.
Endpoint master_of(const WorkerPlace& found) {
    if (found.mpirun_addresses.empty()) return {found.master_addr, found.master_port};
    std::vector<std::string> own;
    for (const LocalAddress& local : local_addresses()) own.push_back(local.address);
    const MpirunMachine machine = find_mpirun(found.mpirun_addresses, own);
    if (found.rank == 0 && !machine.is_this)
        refuse("join",
               fmt::format("mpirun runs at {}, on another machine than rank 0 ({}), so set MASTER_ADDR and "
                           "MASTER_PORT (mpirun -x MASTER_ADDR=HOST, the one of rank 0)",
                           machine.address, kMpirunUri));
    return {machine.address, found.master_port};
}

}  // namespace

void require_valid(const CommunicatorOptions& options) {
    const auto require_timeout = [](std::chrono::milliseconds timeout, const char* name) {
        if (timeout.count() >= 1 && timeout <= kLongestTimeout) return;
        refuse("join", fmt::format("CommunicatorOptions::{} of {} ms is not between 1 ms and 10 years", name,
                                   timeout.count()));
    };
    require_timeout(options.operation_timeout, "operation_timeout");
    require_timeout(options.join_timeout, "join_timeout");
    require_timeout(options.leave_timeout, "leave_timeout");
    if (options.notice_after.count() != 0) require_timeout(options.notice_after, "notice_after");
}

std::unique_ptr<Session> open_session(std::shared_ptr<Store> store, const std::string& address,
                                      const Place& place, const CommunicatorOptions& options) {
    require_valid_place(place, options);
    try {
        return join_in(room_of(std::move(store)), address, place, options,
                       Deadline::clock::now() + options.join_timeout);
    } catch (const boost::system::system_error& error) {
        throw translated(error);
    }
}

std::unique_ptr<Session> open_session(const Meeting& meeting, const Place& place,
                                      const CommunicatorOptions& options) {
    require_valid_place(place, options);
    if (place.world_size == 1) {
        auto session = open_session_alone(place.nccl, options);
        session->local_rank = std::max(place.local_rank, 0);
        session->local_world_size = std::max(place.local_world_size, 1);
        return session;
    }
    Deadline deadline = Deadline::clock::now() + options.join_timeout;
    std::optional<boost::system::system_error> lost;
    while (true) {
        try {
            if (const auto* file = std::get_if<FileMeeting>(&meeting)) {
                MeetingRoom room;
                room.reopen = [path = file->path](std::chrono::milliseconds) {
                    return std::make_shared<FileStore>(path);
                };
                room.store = room.reopen({});
                const std::string address = listen_address(place.host, default_source_address());
                return join_in(std::move(room), address, place, options, deadline);
            }
            if (const auto* given = std::get_if<StoreMeeting>(&meeting)) {
                const std::string address = listen_address(place.host, address_of(place, *given));
                return join_in(room_of(given->store), address, place, options, deadline);
            }
            const auto& tcp = std::get<TcpMeeting>(meeting);
            MeetingRoom room = enter_tcp(tcp, place, deadline);
            const std::string address = listen_address(place.host, address_of(place, tcp.endpoint.host));
            return join_in(std::move(room), address, place, options, deadline);
        } catch (const boost::system::system_error& error) {
            const auto now = Deadline::clock::now();
            const bool hosted_by_0 = std::holds_alternative<TcpMeeting>(meeting) &&
                                     std::get<TcpMeeting>(meeting).rank_0_hosts && place.rank != 0;
            if (!hosted_by_0 || (!lost && !is_lost(error))) throw translated(error);
            // This may have been the store of rank 0's previous communicator, just ending: the next one
            // listens in a moment, and no event tells when.
            if (!lost) deadline = std::min(deadline, now + kRejoinTimeout);
            if (!lost) lost = error;
            if (now + kRejoinPause >= deadline) throw store_gone(*lost);
            std::this_thread::sleep_for(kRejoinPause);
        }
    }
}

std::unique_ptr<Session> open_session(Membership membership, std::optional<TcpListener> listener,
                                      Transport transport, const std::optional<NcclSettings>& nccl,
                                      const CommunicatorOptions& options, Deadline deadline,
                                      const Origin& origin, const ShmGather& gather) {
    auto session = std::make_unique<Session>();
    session->rank = membership.rank;
    session->world_size = membership.world_size();
    session->local_rank = membership.local_rank();
    session->local_world_size = membership.local_world_size();
    join_containers(membership);
    session->options = options;
    const PeerMesh::Operation joining = joining_until(deadline, options);
    session->transport = transport;
    session->nccl = nccl;
    MessengerPlace messages;
    TcpBackend* mesh = nullptr;
    session->executor =
        std::make_unique<Executor>(connect(*session, std::move(membership), std::move(listener), joining,
                                           origin, gather, messages, mesh),
                                   session->world_size);
    if (mesh != nullptr) {
        session->messenger = make_messenger(messages, session->lifeline, options.operation_timeout);
        session->executor->send_by(std::make_unique<Transfers>(*mesh, *session->messenger));
    }
    session->lifeline->complete_join();
    return session;
}

std::unique_ptr<Session> open_session_alone(const std::optional<NcclSettings>& nccl,
                                            const CommunicatorOptions& options) {
    auto session = std::make_unique<Session>();
    session->options = options;
    session->nccl = nccl;
    const PeerMesh::Operation joining = joining_until(Deadline::clock::now() + options.join_timeout, options);
    auto backend =
        nccl ? join_nccl(std::make_unique<NcclPeers>(nullptr, std::nullopt, options.operation_timeout), *nccl,
                         joining)
             : std::make_unique<SoloBackend>();
    session->executor = std::make_unique<Executor>(std::move(backend), 1);
    if (!nccl) session->messenger = make_messenger({}, nullptr, options.operation_timeout);
    return session;
}

std::unique_ptr<Session> open_session_from(const Environment& environment,
                                           const CommunicatorOptions& options) {
    WorkerPlace found;
    Endpoint master;
    try {
        found = read_worker_place(environment);
        master = master_of(found);
    } catch (const boost::system::system_error& error) {
        throw translated(error);
    }
    const bool told = found.is_local_size_told;  // who starts ranks by hand seldom does
    Place place = read_place(environment, options, found.local_rank);
    place.rank = found.rank;
    place.world_size = found.world_size;
    place.local_rank = told ? found.local_rank : -1;
    place.local_world_size = told ? found.local_world_size : -1;
    place.round = static_cast<std::uint32_t>(found.restart_count);
    place.node_addr = found.node_addr;
    place.host_addr = found.host_addr;
    CommunicatorOptions wanted = options;
    if (wanted.notice_after.count() == 0) wanted.notice_after = read_notice(environment);
    if (!found.meeting_file.empty()) return open_session(FileMeeting{found.meeting_file}, place, wanted);
    return open_session(TcpMeeting{std::move(master), !found.agent_hosts_store}, place, wanted);
}

}  // namespace detail
}  // namespace ddprun
