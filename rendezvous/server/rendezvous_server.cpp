#include "rendezvous/server/rendezvous_server.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>

#include <new>
#include <utility>

#include "rendezvous/net/listen.hpp"
#include "rendezvous/net/socket.hpp"

namespace ddprun {
inline namespace job {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

void rethrow(const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);
}

}  // namespace

CoordinatorService::CoordinatorService(asio::io_context& context, const CoordinatorOptions& options,
                                       RendezvousServerEvents events, RoundAnnouncer announcer)
    : context_(context),
      own_agent_(options.own_agent),
      heartbeats_{options.heartbeat},
      coordinator_(options, Coordinator::TimePoint::clock::now()),
      deadline_(context),
      events_(std::move(events)),
      announcer_(std::move(announcer)) {
    arm_deadline();
}

CoordinatorService::~CoordinatorService() {
    for (auto& [id, conversation] : conversations_) conversation.channel->close();
}

// A host that has no memory left for a caller does without that one.
void CoordinatorService::serve(tcp::socket socket, AgentEntry entry, std::shared_ptr<PortCall> call) {
    boost::system::error_code gone;
    const auto remote = socket.remote_endpoint(gone);
    if (gone || conversations_.size() >= kMaxConversations) return;  // The socket closes here.
    try {
        auto session = std::make_shared<ControlSession>(
            std::move(socket), kMaxPendingBytes, std::move(entry.first_bytes), std::move(entry.records));
        session->limit_silence(heartbeats_.connection_silence());
        asio::co_spawn(context_, converse(std::move(session), remote.address(), std::move(call)), rethrow);
    } catch (const std::bad_alloc&) {
    }
}

void CoordinatorService::serve_own(std::shared_ptr<ControlChannel> channel) {
    asio::co_spawn(context_, converse(std::move(channel), std::nullopt, nullptr), rethrow);
}

void CoordinatorService::learn(const RecordNews& news) {
    deliver(coordinator_.learn(news, Coordinator::TimePoint::clock::now()));
}

asio::awaitable<void> CoordinatorService::converse(std::shared_ptr<ControlChannel> channel,
                                                   std::optional<asio::ip::address> remote,
                                                   std::shared_ptr<PortCall> call) {
    const ConnectionId id = ++last_id_;
    Conversation& conversation = conversations_[id];
    conversation.channel = channel;
    conversation.is_own = !remote;
    if (remote) conversation.machines.push_back(*remote);
    bool is_settled = call == nullptr;
    bool closed_there = false;
    try {
        closed_there = co_await channel->run([&, id](const ControlMessage& message) {
            // Only the own agent is what it says, whoever knows its name.
            if (remote && is_false_own(message)) return channel->close();
            if (const auto* hello = std::get_if<Hello>(&message); hello != nullptr && remote)
                note_machine(id, *hello);
            deliver(coordinator_.receive(id, message, Coordinator::TimePoint::clock::now()));
            if (!std::exchange(is_settled, true)) settle(id, *call);
        });
    } catch (const std::bad_alloc&) {
        channel->close();
    }
    conversations_.erase(id);
    deliver(coordinator_.closed(id, Coordinator::TimePoint::clock::now(), closed_there));
}

// Nothing has a meaning behind a first message that was no Hello, or none that is taken.
void CoordinatorService::settle(ConnectionId id, PortCall& call) {
    const auto& channel = conversations_.at(id).channel;
    const bool is_taken = coordinator_.has_taken(id);
    if (!is_taken) channel->hear_no_more();
    call.settle(is_taken, [this, weak = std::weak_ptr(channel)] {
        asio::post(context_, [weak] {
            if (const auto there = weak.lock()) there->close();
        });
    });
}

bool CoordinatorService::is_false_own(const ControlMessage& message) const {
    const auto* hello = std::get_if<Hello>(&message);
    return hello != nullptr && own_agent_ && is_same_agent(*own_agent_, *hello);
}

// A text that is no address is left out; it came from outside.
void CoordinatorService::note_machine(ConnectionId id, const Hello& hello) {
    auto& machines = conversations_.at(id).machines;
    machines.resize(1);
    for (const std::string& text : hello.addresses) {
        boost::system::error_code no_address;
        const auto address = asio::ip::make_address(text, no_address);
        if (!no_address && !address.is_loopback()) machines.push_back(address);
    }
}

void CoordinatorService::deliver(const Coordinator::Outbox& outbox) {
    if (std::exchange(wish_, coordinator_.wish()) != coordinator_.wish() && events_.on_wish)
        events_.on_wish(wish_);
    RoundLease lease{coordinator_.round(), {}};
    if (const auto end = coordinator_.lease_end()) lease.end.emplace(*end, heartbeats_.limit);
    if (std::exchange(lease_, lease) != lease && events_.on_lease) events_.on_lease(lease);
    announce_round(outbox);
    if (unready_ > 0)
        held_back_.insert(held_back_.end(), outbox.begin(), outbox.end());
    else
        send_all(outbox);
    arm_deadline();
    if (coordinator_.is_elected() && !std::exchange(is_elected_, true) && events_.on_elected)
        events_.on_elected();
    if (coordinator_.empty() && !is_over_.exchange(true) && events_.on_over) events_.on_over();
}

// Nobody may use the store before it is ready for the round, and workers do so as soon as their agents know
// of it.
void CoordinatorService::announce_round(const Coordinator::Outbox& outbox) {
    RoundNews news;
    bool begins = false;
    for (const auto& outgoing : outbox) {
        const auto* ready = std::get_if<RoundReady>(&outgoing.message);
        if (ready == nullptr) continue;
        begins = true;
        news.through_doors = ready->through_doors;
        const auto conversation = conversations_.find(outgoing.to);
        if (conversation == conversations_.end()) continue;
        const auto& its = conversation->second.machines;
        news.machines.insert(news.machines.end(), its.begin(), its.end());
    }
    if (!begins) return;
    news.is_new = std::exchange(announced_, coordinator_.round()) != coordinator_.round();
    ++unready_;
    announcer_(news, [this] {
        if (--unready_ == 0) send_all(std::exchange(held_back_, {}));
    });
}

void CoordinatorService::send_all(const Coordinator::Outbox& outbox) {
    SharedFrames frames;  // of an outbox that has ends of ranks, they are the same for all
    const auto say = [](ControlChannel& channel, const Coordinator::Outgoing& outgoing,
                        const SharedFrames& ends) {
        if (outgoing.ends) channel.send_ends(outgoing.ends, ends);
        channel.send(outgoing.message, outgoing.close_after);
    };
    std::vector<std::function<void()>> own;
    for (const auto& outgoing : outbox) {
        const auto conversation = conversations_.find(outgoing.to);
        if (conversation == conversations_.end()) continue;
        if (outgoing.ends && !frames) frames = encode_ends(*outgoing.ends);
        const auto& channel = conversation->second.channel;
        if (conversation->second.is_own)
            own.emplace_back([say, channel, outgoing, frames] { say(*channel, outgoing, frames); });
        else if (const auto* welcome = std::get_if<Welcome>(&outgoing.message))
            say(*channel, {outgoing.to, seen_welcome(*welcome, conversation->second), outgoing.close_after},
                {});
        else
            say(*channel, outgoing, frames);
    }
    // The own agent hears it when it has gone out to the others: it may stop this process then.
    for (auto& word : own) asio::post(context_, std::move(word));
}

Welcome CoordinatorService::seen_welcome(Welcome welcome, const Conversation& conversation) {
    welcome.seen_at = comparable(conversation.machines.front()).to_string();
    return welcome;
}

void CoordinatorService::arm_deadline() {
    const auto deadline = coordinator_.next_deadline();
    if (std::exchange(armed_for_, deadline) == deadline) return;
    deadline_.cancel();
    if (!deadline) return;
    deadline_.expires_at(*deadline);
    deadline_.async_wait([this](boost::system::error_code cancelled) {
        if (cancelled) return;
        armed_for_.reset();
        deliver(coordinator_.tick(Coordinator::TimePoint::clock::now()));
    });
}

namespace asio = boost::asio;
using asio::ip::tcp;

RendezvousServer::RendezvousServer(RendezvousServerOptions options, const RendezvousServerEvents& events)
    : port_(listeners(options), {options.key, options.spared_descriptors}, port_events(events)),
      coordinator_(control_context_, options.coordinator, events, round_announcer()) {
    port_.start();
    port_thread_ = start_serving(port_context_, events.on_failed);
    try {
        control_thread_ = start_serving(control_context_, events.on_failed);
    } catch (...) {
        port_context_.stop();
        port_thread_.join();
        throw;
    }
}

RendezvousServer::~RendezvousServer() {
    port_context_.stop();
    control_context_.stop();
    port_thread_.join();
    control_thread_.join();
}

void RendezvousServer::learn(const RecordNews& news) {
    asio::post(control_context_, [this, news] { coordinator_.learn(news); });
}

std::shared_ptr<ControlChannel> RendezvousServer::call(const asio::any_io_executor& agent) {
    auto ends = make_local_channel(agent, control_context_.get_executor());
    asio::post(control_context_, [this, ours = std::move(ends.second)] { coordinator_.serve_own(ours); });
    return ends.first;
}

std::vector<tcp::acceptor> RendezvousServer::listeners(RendezvousServerOptions& options) {
    const auto executor = port_context_.get_executor();
    auto acceptors = options.sockets.empty()
                         ? listen_tcp(executor, options.listen, options.port, options.free_ports)
                         : adopt_listeners(executor, std::move(options.sockets));
    const tcp::endpoint bound = acceptors.front().local_endpoint();
    const bool any = bound.address().is_unspecified();
    own_endpoint_ = {any ? "127.0.0.1" : bound.address().to_string(), bound.port()};
    return acceptors;
}

// An agent's connection changes its executor. Asio wants to copy what it is given.
PortServiceEvents RendezvousServer::port_events(const RendezvousServerEvents& events) {
    return {.on_agent =
                [this](tcp::socket socket, AgentEntry entry, std::shared_ptr<PortCall> call) {
                    const auto protocol = socket.local_endpoint().protocol();
                    auto held = std::make_shared<OwnedDescriptor>(socket.release());
                    asio::post(control_context_, [this, protocol, held, entry = std::move(entry),
                                                  call = std::move(call)]() mutable {
                        coordinator_.serve(tcp::socket(control_context_, protocol, held->release()),
                                           std::move(entry), std::move(call));
                    });
                },
            .on_remark = events.on_remark,
            .on_refused = events.on_refused};
}

RoundAnnouncer RendezvousServer::round_announcer() {
    return [this](const RoundNews& news, std::function<void()> done) {
        asio::post(port_context_, [this, news, done = std::move(done)] {
            news.is_new ? port_.begin_round(news.machines, news.through_doors) : port_.admit(news.machines);
            asio::post(control_context_, done);
        });
    };
}

}  // namespace job
}  // namespace ddprun
