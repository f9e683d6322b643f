#include "rendezvous/link/store_door.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rendezvous/door/door_link.hpp"
#include "rendezvous/link/door_clients.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/net/socket.hpp"
#include "rendezvous/secure/sealed_connection.hpp"
#include "rendezvous/server/caller_gate.hpp"
#include "rendezvous/server/serving_thread.hpp"

namespace ddprun::inline job {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr std::chrono::milliseconds kFirstLinkPause{20};
constexpr std::chrono::milliseconds kLongestLinkPause{1'000};

void rethrow_at_door(const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);
}

// DoorService has the door's port and its connection to node 0, which is made when the first worker of a round comes. Everything
// on the thread that runs the executor, or while nobody runs it.
class DoorService final : private DoorFrameSink {
  public:
    // Workers wait so long while node 0 cannot be reached; then they are hung up on, and may come again.
    static constexpr std::chrono::seconds kLinkTimeout{30};

    DoorService(std::vector<tcp::acceptor> acceptors, StoreDoorOptions options);
    ~DoorService() override;

    void start();
    void begin_round(const Endpoint& coordinator);

  private:
    std::string& text() override;
    bool has_room() override;

    void take(tcp::socket socket);
    void want_link();
    asio::awaitable<void> connect(int round);
    asio::awaitable<bool> connect_once(int round, std::chrono::milliseconds timeout);
    void use(tcp::socket socket, const NoiseKeys& keys);
    void drop_all();
    void remark(const std::optional<std::string>& sentence) const;

    std::vector<tcp::acceptor> acceptors_;
    StoreDoorOptions options_;
    ConnectionOwners owners_;
    CallerGate gate_;
    ConnectionLimit limit_;
    std::optional<Endpoint> coordinator_;
    int round_ = 0;  // so many have begun
    DoorClients clients_;
    std::shared_ptr<SealedLink> link_;
    bool is_connecting_ = false;
    std::string early_;       // for the link, before there is one
    bool is_missed_ = false;  // room in it, by a client
};

DoorService::DoorService(std::vector<tcp::acceptor> acceptors, StoreDoorOptions options)
    : acceptors_(std::move(acceptors)),
      options_(std::move(options)),
      gate_(::geteuid()),
      limit_(options_.spared_descriptors),
      clients_(acceptors_.front().get_executor(), *this) {}

DoorService::~DoorService() {
    if (link_) link_->close();
}

void DoorService::start() {
    for (tcp::acceptor& acceptor : acceptors_) {
        asio::co_spawn(acceptor.get_executor(),
                       accept_each(acceptor, [this](tcp::socket socket) { take(std::move(socket)); }),
                       rethrow_at_door);
    }
}

void DoorService::begin_round(const Endpoint& coordinator) {
    drop_all();
    coordinator_ = coordinator;
    is_connecting_ = false;
    ++round_;
}

std::string& DoorService::text() { return link_ ? link_->text() : early_; }

bool DoorService::has_room() {
    if (link_) return link_->has_room();
    const bool is_full = early_.size() >= SealedLink::kHighWater;
    if (is_full) is_missed_ = true;
    return !is_full;
}

// A caller that is turned away is closed here.
void DoorService::take(tcp::socket socket) {
    if (!coordinator_) return;
    if (!limit_.has_room(clients_.size())) return remark(limit_.tell_full());
    boost::system::error_code error;
    const CallerGate::Caller caller{owners_.of(socket), socket.remote_endpoint(error).address()};
    remark(gate_.tell_untold(caller));
    if (gate_.judge(caller) != CallerGate::Pass::everything) return remark(gate_.tell_turned_away(caller));
    clients_.add(OwnedDescriptor(socket.release()));
    want_link();
}

void DoorService::remark(const std::optional<std::string>& sentence) const {
    if (sentence && options_.on_remark) options_.on_remark(*sentence);
}

void DoorService::want_link() {
    if (link_ || std::exchange(is_connecting_, true)) return;
    asio::co_spawn(acceptors_.front().get_executor(), connect(round_), rethrow_at_door);
}

// It tries until there is a link, the time is over, or another round has begun.
asio::awaitable<void> DoorService::connect(int round) {
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + kLinkTimeout;
    asio::steady_timer pause(acceptors_.front().get_executor());
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

asio::awaitable<bool> DoorService::connect_once(int round, std::chrono::milliseconds timeout) {
    try {
        tcp::socket socket = co_await async_connect_tcp(*coordinator_, timeout);
        if (round != round_) co_return false;
        const SealedCall::Result result = co_await call_sealed(socket, SealedPurpose::store, options_.key);
        if (round != round_ || result.proof != Proof::given) co_return false;
        use(std::move(socket), *result.keys);
        co_return true;
    } catch (const boost::system::system_error&) {
        // It is tried again, and what the agent cannot reach it tells itself.
        co_return false;
    }
}

void DoorService::use(tcp::socket socket, const NoiseKeys& keys) {
    is_connecting_ = false;
    link_ = std::make_shared<SealedLink>(
        std::move(socket), SealedRecords(keys), std::string(),
        SealedLinkEvents{.on_text = [this](std::string_view plain) { return clients_.take(plain); },
                         .on_room = [this] { clients_.has_room(); },
                         .on_over = [this] { drop_all(); }});
    link_->text() += std::exchange(early_, {});
    link_->start();
    if (std::exchange(is_missed_, false)) clients_.has_room();
}

// The clients see it as if the store had hung up on each of them; the next one gets another link.
void DoorService::drop_all() {
    if (link_) link_->close();
    link_.reset();
    early_.clear();
    is_missed_ = false;
    clients_.clear();
}

}  // namespace

class StoreDoor::Impl {
  public:
    explicit Impl(StoreDoorOptions options) : service_(listeners(options.free_ports), std::move(options)) {}

    ~Impl() {
        context_.stop();
        if (thread_.joinable()) thread_.join();
    }

    const Endpoint& endpoint() const { return endpoint_; }

    void begin_round(const Endpoint& coordinator) {
        asio::post(context_, [this, coordinator] { service_.begin_round(coordinator); });
        if (thread_.joinable()) return;
        service_.start();
        thread_ = start_serving(context_, {});
    }

  private:
    // A number of its own, not that of the job's port: another agent on this machine may be about to listen there.
    std::vector<tcp::acceptor> listeners(const FreePorts& free_ports) {
        auto acceptors = listen_tcp(context_.get_executor(), ListenPlan{}, 0, free_ports);
        const tcp::endpoint bound = acceptors.front().local_endpoint();
        endpoint_ = {bound.address().to_string(), bound.port()};
        return acceptors;
    }

    asio::io_context context_{1};
    Endpoint endpoint_;
    DoorService service_;
    std::thread thread_;
};

StoreDoor::StoreDoor(StoreDoorOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

StoreDoor::~StoreDoor() = default;

Endpoint StoreDoor::endpoint() const { return impl_->endpoint(); }

void StoreDoor::begin_round(const Endpoint& coordinator) { impl_->begin_round(coordinator); }

}  // namespace ddprun::inline job
