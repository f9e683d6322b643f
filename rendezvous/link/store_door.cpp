#include "rendezvous/link/store_door.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rendezvous/door/door_frames.hpp"
#include "rendezvous/door/sealed_link.hpp"
#include "rendezvous/net/connect.hpp"
#include "rendezvous/net/listen.hpp"
#include "rendezvous/net/ready_set.hpp"
#include "rendezvous/secure/noise_handshake.hpp"
#include "rendezvous/secure/sealed_connection.hpp"
#include "rendezvous/secure/sealed_records.hpp"
#include "rendezvous/server/caller_gate.hpp"
#include "rendezvous/server/port_service.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace job {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// So many batches are served before the executor's other work has its turn.
constexpr int kDoorBatches = 8;
constexpr std::chrono::milliseconds kFirstLinkPause{20};
constexpr std::chrono::milliseconds kLongestLinkPause{1'000};

// DoorOutput takes the frames that go to node 0: into the link, or what will be its first text while there is
// none.
struct DoorOutput {
    // Gives the text whose bytes go out soon; frames are appended to it.
    std::string& text() { return link ? link->text() : early; }
    // Tells whether more may be appended. If not, DoorClients::has_room() is called when it may again.
    bool has_room() {
        if (link) return link->has_room();
        const bool is_full = early.size() >= SealedLink::kHighWater;
        is_missed = is_missed || is_full;
        return !is_full;
    }

    std::shared_ptr<SealedLink> link;
    std::string early;
    bool is_missed = false;  // room in it, by a client
};

// DoorClients are the workers of this node that use the store through its door: what they send goes into the
// link to node 0 as frames, and what comes from there to them, each as far as the other side takes it (see
// door_link.hpp).
//
// Owned by DoorService, on its thread. A client that is silent, slow or stuck costs kDoorWindow bytes and
// holds up nobody.
class DoorClients {
  public:
    // `output` outlives it.
    DoorClients(const asio::any_io_executor& executor, DoorOutput& output);
    ~DoorClients();
    DoorClients(const DoorClients&) = delete;
    DoorClients& operator=(const DoorClients&) = delete;

    // Adds a client, by its non-blocking socket.
    void add(OwnedDescriptor socket);
    // Takes what node 0 has sent; false: it should not have said that.
    bool take(std::string_view plain);
    void has_room();
    // All are hung up on; the next link begins with channel 1 again.
    void clear();

    std::size_t size() const { return clients_.size(); }

  private:
    struct Client {
        explicit Client(OwnedDescriptor socket) : fd(std::move(socket)) {}

        OwnedDescriptor fd;
        std::uint32_t events = 0;          // what the ready set is asked for
        std::string rest;                  // for it, what its socket has not taken yet, …
        std::size_t rest_sent = 0;         // … of which so much has gone
        std::size_t credit = kDoorWindow;  // of what it may send
        std::size_t window = kDoorWindow;  // of what may come for it
        std::size_t owed = 0;              // to be given back
        bool is_held = false;              // it is not read: the link has no room
        bool has_ended = false;            // the store hangs up, behind what is left
    };
    using Number = std::uint32_t;  // of the channel

    void arm();
    void serve_ready();
    void serve(Number number, std::uint32_t events);
    void receive(Number number, Client& client);
    bool take(const DoorFrame& frame);
    bool deliver(Number number, Client& client, std::string_view data);
    std::size_t send(Client& client, std::string_view data);
    void send_rest(Number number, Client& client);
    void give_back(Number number, Client& client, std::size_t taken);
    void ask_for_more(Number number, Client& client);
    void hang_up(Number number);
    void leave(Number number);

    DoorOutput& output_;
    ReadySet ready_;
    bool armed_ = false;  // a wait for the ready set is under way
    std::unordered_map<Number, Client> clients_;
    std::vector<Number> held_;
    Number last_ = 0;
    DoorFrames frames_;
    std::unique_ptr<char[]> bytes_;  // kMaxDoorData, to read into
    std::shared_ptr<int> life_ = std::make_shared<int>(0);
};

DoorClients::DoorClients(const asio::any_io_executor& executor, DoorOutput& output)
    : output_(output), ready_(executor), bytes_(std::make_unique<char[]>(kMaxDoorData)) {}

DoorClients::~DoorClients() { clear(); }

void DoorClients::add(OwnedDescriptor socket) {
    const Number number = ++last_;
    Client& client = clients_.emplace(number, std::move(socket)).first->second;
    client.events = EPOLLIN;
    ready_.add(client.fd.get(), number, client.events);
    put_door_frame(output_.text(), DoorFrameKind::open, number);
    arm();
}

void DoorClients::clear() {
    for (const auto& [number, client] : clients_) ready_.remove(client.fd.get());
    clients_.clear();
    held_.clear();
    frames_ = {};
    last_ = 0;
    ready_.cancel();
}

// How the workers' bytes become frames, and frames their bytes:
// 1. One epoll set watches all workers' sockets; a wait for it ends when any of them is ready (arm,
//    serve_ready).
// 2. A readable worker is read once, as far as its credit goes, and what came is appended to the link's text
//    as one frame (receive). Without room in the link it is held: not read again before has_room().
// 3. A frame from node 0 goes to its worker's socket at once; what that does not take waits in `rest`, and
//    the socket is asked for EPOLLOUT (deliver, send_rest). So the link is read on, and a slow worker holds
//    up only itself.
// 4. Node 0 may send a worker kDoorWindow bytes more than that one has taken; what was taken is given back as
//    credit, in steps (give_back). Node 0's credit allows the worker to send in the same way.
void DoorClients::arm() {
    if (armed_ || ready_.empty()) return;
    armed_ = true;
    ready_.async_wait([this, life = std::weak_ptr(life_)] {
        if (life.expired()) return;
        armed_ = false;
        serve_ready();
        arm();
    });
}

void DoorClients::serve_ready() {
    for (int batch = 0; batch < kDoorBatches; ++batch) {
        const std::span<const epoll_event> events = ready_.take();
        for (const epoll_event& event : events) serve(static_cast<Number>(event.data.u64), event.events);
        // Only a busy door can expect more so soon.
        if (events.size() < 2) break;
    }
}

void DoorClients::serve(Number number, std::uint32_t events) {
    const auto found = clients_.find(number);
    if (found == clients_.end()) return;
    Client& client = found->second;
    if ((events & EPOLLOUT) != 0) return send_rest(number, client);
    if ((events & EPOLLIN) != 0 && (client.events & EPOLLIN) != 0) return receive(number, client);
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) leave(number);
}

void DoorClients::receive(Number number, Client& client) {
    if (!output_.has_room()) {
        client.is_held = true;
        held_.push_back(number);
        return ask_for_more(number, client);
    }
    const std::size_t room = std::min(client.credit, kMaxDoorData);
    const ssize_t count = ::recv(client.fd.get(), bytes_.get(), room, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return leave(number);
    client.credit -= static_cast<std::size_t>(count);
    put_door_data(output_.text(), number, {bytes_.get(), static_cast<std::size_t>(count)});
    ask_for_more(number, client);
}

void DoorClients::has_room() {
    for (const Number number : std::exchange(held_, {})) {
        const auto found = clients_.find(number);
        if (found == clients_.end()) continue;
        found->second.is_held = false;
        ask_for_more(number, found->second);
    }
}

bool DoorClients::take(std::string_view plain) {
    return frames_.take(plain, [this](const DoorFrame& frame) { return take(frame); });
}

bool DoorClients::take(const DoorFrame& frame) {
    if (frame.kind == DoorFrameKind::open || frame.channel > last_) return false;
    const auto found = clients_.find(frame.channel);
    if (found == clients_.end()) return true;
    Client& client = found->second;
    if (frame.kind == DoorFrameKind::data) return deliver(frame.channel, client, frame.data);
    if (frame.kind == DoorFrameKind::credit) {
        client.credit += frame.count;
        if (client.credit > kDoorWindow) return false;
        ask_for_more(frame.channel, client);
    } else {
        client.has_ended = true;
        if (client.rest.empty()) hang_up(frame.channel);
    }
    return true;
}

bool DoorClients::deliver(Number number, Client& client, std::string_view data) {
    if (data.size() > client.window) return false;
    client.window -= data.size();
    const std::size_t sent = client.rest.empty() ? send(client, data) : 0;
    client.rest.append(data.substr(sent));
    give_back(number, client, sent);
    ask_for_more(number, client);
    return true;
}

// Returns how much its socket takes. A broken one takes all: it shows itself at the next event.
std::size_t DoorClients::send(Client& client, std::string_view data) {
    for (;;) {
        const ssize_t count = ::send(client.fd.get(), data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count >= 0) return static_cast<std::size_t>(count);
        if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
        if (errno != EINTR) return data.size();
    }
}

void DoorClients::send_rest(Number number, Client& client) {
    const std::size_t sent = send(client, std::string_view(client.rest).substr(client.rest_sent));
    client.rest_sent += sent;
    give_back(number, client, sent);
    if (client.rest_sent == client.rest.size()) {
        std::string().swap(client.rest);
        client.rest_sent = 0;
        if (client.has_ended) return hang_up(number);
    }
    ask_for_more(number, client);
}

void DoorClients::give_back(Number number, Client& client, std::size_t taken) {
    client.owed += taken;
    if (client.owed < kDoorCreditStep) return;
    put_door_frame(output_.text(), DoorFrameKind::credit, number, static_cast<std::uint32_t>(client.owed));
    client.window += std::exchange(client.owed, 0);
}

void DoorClients::ask_for_more(Number number, Client& client) {
    const bool is_read = client.credit > 0 && !client.is_held && !client.has_ended;
    const std::uint32_t wanted = (is_read ? EPOLLIN : 0U) | (client.rest.empty() ? 0U : EPOLLOUT);
    if (wanted == client.events) return;
    client.events = wanted;
    ready_.change(client.fd.get(), number, wanted);
}

void DoorClients::hang_up(Number number) {
    const auto found = clients_.find(number);
    ready_.remove(found->second.fd.get());
    clients_.erase(found);
}

// The client has hung up.
void DoorClients::leave(Number number) {
    put_door_frame(output_.text(), DoorFrameKind::close, number);
    hang_up(number);
}

void rethrow_at_door(const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);
}

// DoorService has the door's port and its connection to node 0, which is made when the first worker of a
// round comes. What is private happens on the door's thread, or while there is none.
class DoorService final : public StoreDoor {
  public:
    // Workers wait so long while node 0 cannot be reached; then they are hung up on, and may come again.
    static constexpr std::chrono::seconds kLinkTimeout{30};

    // The port has a number of its own, not that of the job's: another agent on this machine may be about to
    // listen there.
    explicit DoorService(StoreDoorOptions options)
        : options_(std::move(options)),
          acceptors_(listen_tcp(context_.get_executor(), ListenPlan{}, 0, options_.free_ports)),
          gate_(::geteuid()),
          limit_(options_.spared_descriptors),
          clients_(context_.get_executor(), output_) {}
    ~DoorService() override {
        context_.stop();
        if (thread_.joinable()) thread_.join();
        if (output_.link) output_.link->close();
    }

    Endpoint endpoint() const override {
        const tcp::endpoint bound = acceptors_.front().local_endpoint();
        return {bound.address().to_string(), bound.port()};
    }
    void begin_round(const Endpoint& coordinator) override {
        asio::post(context_, [this, coordinator] { take_round(coordinator); });
        if (thread_.joinable()) return;
        for (tcp::acceptor& acceptor : acceptors_) {
            asio::co_spawn(context_,
                           accept_each(acceptor, [this](tcp::socket socket) { take(std::move(socket)); }),
                           rethrow_at_door);
        }
        thread_ = start_serving(context_, {});
    }

  private:
    void take_round(const Endpoint& coordinator) {
        drop_all();
        coordinator_ = coordinator;
        is_connecting_ = false;
        ++round_;
    }

    // A caller that is turned away is closed here.
    void take(tcp::socket socket) {
        if (!coordinator_) return;
        if (!limit_.has_room(clients_.size())) return remark(limit_.tell_full());
        boost::system::error_code error;
        const CallerGate::Caller caller{owners_.of(socket), socket.remote_endpoint(error).address()};
        remark(gate_.tell_untold(caller));
        if (gate_.judge(caller) != CallerGate::Pass::everything) {
            const auto told = gate_.turn_away(caller, "", RefusedCallers::Clock::now());
            if (told.event && options_.on_refused) options_.on_refused(*told.event);
            return remark(told.sentence);
        }
        clients_.add(OwnedDescriptor(socket.release()));
        want_link();
    }

    void want_link() {
        if (output_.link || std::exchange(is_connecting_, true)) return;
        asio::co_spawn(context_.get_executor(), connect(round_), rethrow_at_door);
    }

    // It tries until there is a link, the time is over, or another round has begun.
    asio::awaitable<void> connect(int round) {
        using Clock = std::chrono::steady_clock;
        const auto deadline = Clock::now() + kLinkTimeout;
        asio::steady_timer pause(context_.get_executor());
        for (auto length = kFirstLinkPause;; length = std::min(2 * length, kLongestLinkPause)) {
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
            if (left.count() <= 0) break;
            if (co_await connect_once(round, left) || round != round_) co_return;
            pause.expires_after(std::min(length, left));
            co_await pause.async_wait(asio::use_awaitable);
            if (round != round_) co_return;
        }
        is_connecting_ = false;
        drop_all();
    }

    asio::awaitable<bool> connect_once(int round, std::chrono::milliseconds timeout) {
        try {
            tcp::socket socket = co_await async_connect_tcp(*coordinator_, timeout);
            if (round != round_) co_return false;
            const SealedCall::Result result =
                co_await call_sealed(socket, SealedPurpose::store, options_.key);
            if (round != round_ || result.proof != Proof::given) co_return false;
            use(std::move(socket), *result.keys);
            co_return true;
        } catch (const boost::system::system_error&) {
            // It is tried again, and what the agent cannot reach it tells itself.
            co_return false;
        }
    }

    void use(tcp::socket socket, const NoiseKeys& keys) {
        is_connecting_ = false;
        output_.link = std::make_shared<SealedLink>(
            std::move(socket), SealedRecords(keys), std::string(),
            SealedLinkEvents{.on_text = [this](std::string_view plain) { return clients_.take(plain); },
                             .on_room = [this] { clients_.has_room(); },
                             .on_over = [this](std::string_view) { drop_all(); }});
        output_.link->text() += std::exchange(output_.early, {});
        output_.link->start();
        if (std::exchange(output_.is_missed, false)) clients_.has_room();
    }

    // The clients see it as if the store had hung up on each of them; the next one gets another link.
    void drop_all() {
        if (output_.link) output_.link->close();
        output_ = {};
        clients_.clear();
    }

    void remark(const std::optional<std::string>& sentence) const {
        if (sentence && options_.on_remark) options_.on_remark(*sentence);
    }

    asio::io_context context_{1};
    StoreDoorOptions options_;
    std::vector<tcp::acceptor> acceptors_;
    ConnectionOwners owners_;
    CallerGate gate_;
    ConnectionLimit limit_;
    std::optional<Endpoint> coordinator_;
    int round_ = 0;  // so many have begun
    DoorOutput output_;
    DoorClients clients_;
    bool is_connecting_ = false;
    std::thread thread_;
};

}  // namespace

std::unique_ptr<StoreDoor> StoreDoor::make(StoreDoorOptions options) {
    return std::make_unique<DoorService>(std::move(options));
}

}  // namespace job
}  // namespace ddprun
