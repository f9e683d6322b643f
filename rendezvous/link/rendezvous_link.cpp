#include "rendezvous/link/rendezvous_link.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>
#include <limits>
#include <utility>
#include <vector>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/link/host_lease.hpp"
#include "rendezvous/link/job_memory.hpp"
#include "rendezvous/link/leader_search.hpp"
#include "rendezvous/link/redirect_notice.hpp"
#include "rendezvous/net/listen.hpp"
#include "rendezvous/net/port_range.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace job {

namespace asio = boost::asio;
using TimePoint = std::chrono::steady_clock::time_point;

namespace {

// MeetingPlace is where an agent would host the coordinator if the one it has is lost. It listens from the
// time the agent joins, so that it can be told to all, but nobody answers there: who calls early waits, and a
// refused call shows that the agent is not there any more.
class MeetingPlace {
  public:
    // Listens on loopback and at this address of this machine, at a free port: the job's own may be wanted
    // there by another job. Anew if it was another address before. Where the system refuses nobody can meet
    // there, and what is wrong is returned, once; else nothing.
    std::string open(const boost::asio::any_io_executor& executor, const std::string& address,
                     const FreePorts& free_ports) {
        if (address == address_ && !acceptors_.empty()) return {};
        acceptors_.clear();
        address_ = address;
        ListenPlan plan;
        boost::system::error_code no_address;
        const auto parsed = boost::asio::ip::make_address(address, no_address);
        if (no_address) return {};
        if (!parsed.is_loopback() || parsed.is_v6()) plan.addresses.push_back(address);
        try {
            acceptors_ = listen_tcp(executor, plan, 0, free_ports);
            take_silent(false);
        } catch (const boost::system::system_error& error) {
            if (std::exchange(trouble_, error.what()) != error.what()) return trouble_;
        }
        return {};
    }

    // Writes into this agent's first message where the others are to call; port 0: nowhere.
    void tell_in(Hello& hello) const {
        hello.meeting_address = address_;
        hello.meeting_port = acceptors_.empty() ? 0 : acceptors_.front().local_endpoint().port();
    }

    // The listening sockets once more, for who hosts there.
    std::vector<OwnedDescriptor> sockets() {
        take_silent(true);
        std::vector<OwnedDescriptor> copies;
        for (auto& acceptor : acceptors_)
            copies.emplace_back(::fcntl(acceptor.native_handle(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
        return copies;
    }

  private:
    // As long as nobody answers, who says nothing has no place in the queue; an agent speaks first.
    void take_silent(bool do_so) {
        const int seconds = do_so ? 0 : std::numeric_limits<int>::max();
        for (auto& acceptor : acceptors_)
            ::setsockopt(acceptor.native_handle(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds);
    }

    std::string address_;
    std::string trouble_;
    std::vector<boost::asio::ip::tcp::acceptor> acceptors_;
};

class Link final : public RendezvousLink {
  public:
    Link(const asio::any_io_executor& executor, RendezvousLinkOptions options, LinkObserver& observer)
        : executor_(executor),
          options_(std::move(options)),
          observer_(observer),
          place_(options_.place),
          join_time_(options_.join_deadline - TimePoint::clock::now()),
          memory_(options_.hello.node_rank),
          leader_search_(executor, search_steps()) {
        if (options_.search) port_search_.emplace(executor_, *options_.search, port_search_events());
        if (options_.election)
            election_ = EtcdElection::make(executor_, *options_.election, election_events());
    }

    void host() override {
        const auto host_here = [this](const Endpoint& here) { serve(options_.server_options(here)); };
        port_search_
            ? port_search_->host(host_here, [this](const std::string& text) { observer_.step(text); })
            : host_here(place_);
        if (!server_) return;
        // A machine may have no 127.0.0.1.
        const Endpoint own = server_->own_endpoint();
        place_ = {place_.host == "127.0.0.1" ? own.host : place_.host, own.port};
    }

    bool hosts() const override { return server_ != nullptr; }
    Endpoint own_endpoint() const override { return server_->own_endpoint(); }
    bool is_over() const override { return !hosts() || server_->is_over(); }
    Endpoint place() const override { return place_; }

    bool may_retry_members() const override { return memory_.members() && !memory_.following(); }

    void join() override {
        if (may_retry_members()) return retry_members(*memory_.members());
        if (election_ && !hosts()) return election_->campaign(options_.join_deadline);
        join_here();
    }
    bool seek(const CoordinatorLoss& loss) override {
        using Kind = CoordinatorLoss::Kind;
        const bool is_final =
            loss.kind == Kind::given_up || loss.kind == Kind::leaderless || loss.kind == Kind::unreached;
        if (!options_.failover || is_final || is_closing_) return false;
        if (!leader_search_.is_on()) {
            auto following = memory_.following();
            if (!following || memory_.leader() == following->group_rank) return false;
            leader_search_.begin(std::move(*following), memory_.leader(), loss);
        }
        leader_search_.lose(loss, place_);
        return true;
    }

    const CallerAddress& caller_address() const override {
        static const CallerAddress kNone;
        return client_ ? client_->caller_address() : kNone;
    }
    std::optional<CoordinatorLoss> overdue_loss() const override {
        return client_ ? client_->overdue_loss() : std::nullopt;
    }
    void send(const ControlMessage& message) override {
        if (client_) client_->send(message);
    }
    void suspend(std::function<void()> done) override {
        client_ ? client_->suspend(std::move(done)) : done();
    }
    void resume() override {
        if (client_) client_->resume();
    }
    void withdraw(std::function<void()> done) override {
        if (election_) return election_->withdraw(std::move(done));
        if (done) done();
    }
    void close(std::function<void()> on_closed) override {
        withdraw({});
        is_closing_ = true;
        if (port_search_) port_search_->end();
        leader_search_.end();
        if (client_) return client_->close(std::move(on_closed));
        if (on_closed) on_closed();
    }

  private:
    void serve(RendezvousServerOptions options) {
        const auto here = [this](auto act) {
            return [this, act, life = std::weak_ptr(life_)](auto... arguments) {
                asio::post(executor_, [act, life, arguments...] {
                    if (!life.expired()) act(arguments...);
                });
            };
        };
        RendezvousServerEvents events;
        events.on_over = here([this] { others_left(); });
        events.on_lease = here([this](const RoundLease& lease) {
            host_lease_.learn(lease);
            observer_.lease_moves(lease.end);
        });
        events.on_remark = here([this](const std::string& sentence) { observer_.say(sentence); });
        events.on_refused = here([this](const RefusedCaller& caller) { observer_.refused(caller); });
        events.on_failed = here([this](const std::string& what) { observer_.host_failed(what); });
        // An agent that comes back by now shall not begin the job anew.
        if (leader_search_.is_on()) events.on_elected = here([this] { tell_old_place(); });
        if (election_)
            events.on_wish = here([this](auto wish) {
                waits_for_record_ = wish && !wish->renew_until;
                election_->record(wish);
            });
        host_lease_ = {};
        server_ = std::make_unique<RendezvousServer>(std::move(options), events);
    }
    void others_left() { retires_ ? leader_search_.step() : observer_.others_left(); }

    void join_here() {
        if (seeks_port()) return port_search_->call_next();
        if (client_) return client_->join();
        connect({.coordinator = place_, .hello = options_.hello, .join_deadline = options_.join_deadline});
    }

    LeaderSearchSteps search_steps() {
        LeaderSearchSteps steps;
        steps.hang_up = [this] {
            client_.reset();
            return retires_ = hosts() && !server_->is_over();
        };
        steps.clear = [this] {
            client_.reset();
            server_.reset();
            redirect_notice_.reset();
            retires_ = false;
        };
        steps.go_to = [this](const Succession::Step& next) { go_to(next); };
        steps.give_up = [this](const CoordinatorLoss& loss) { observer_.lost(loss); };
        if (options_.election)
            steps.claim = [this](const Following& own, TimePoint deadline) {
                election_->claim(own.last, own.dead, deadline);
            };
        return steps;
    }

    // The job has not been joined yet, and is at one of several ports.
    bool seeks_port() const {
        return port_search_ && !port_search_->has_ended() && !hosts() && !memory_.members();
    }
    PortSearchEvents port_search_events() {
        return {[this](const CoordinatorClientOptions& call_there) { call(call_there); },
                [this] { client_.reset(); }, observer_};
    }
    void call(CoordinatorClientOptions options) {
        place_ = options.coordinator;
        connect(std::move(options));
    }

    void connect(CoordinatorClientOptions options) {
        options.key = options_.key;
        if (hosts()) options.in_process = [this] { return hosts() ? server_->call(executor_) : nullptr; };
        // The meeting place is told to the coordinator, and may be wanted at once when that is lost.
        options.on_connected = [this](Hello& hello, const std::string& local_address) {
            if (!options_.failover || hosts()) return;
            const auto trouble = meeting_place_.open(executor_, local_address, options_.free_ports);
            if (!trouble.empty()) observer_.say("this node cannot lead the job after its host: " + trouble);
            meeting_place_.tell_in(hello);
        };
        client_ = std::make_unique<CoordinatorClient>(
            executor_, std::move(options),
            CoordinatorClientEvents{.on_message = [this](const ControlMessage& message) { receive(message); },
                                    .on_trouble =
                                        [this](const std::string& cause) {
                                            if (seeks_port() && port_search_->takes_trouble(cause)) return;
                                            if (!leader_search_.is_on()) return observer_.trouble(cause);
                                            observer_.step("no coordinator there: " + cause);
                                            leader_search_.go_on();
                                        },
                                    .on_lost = [this](const CoordinatorLoss& loss) { lose(loss); },
                                    .on_lease = [this](const auto& end) { observer_.lease_moves(end); }});
        client_->join();
    }

    // A node that waits for a place has no voice in who leads next, but that is one of these members: they
    // are called in turn.
    void retry_members(const MemberList& list) {
        // It may have waited for a place for hours.
        if (retried_ == 0) options_.join_deadline = TimePoint::clock::now() + join_time_;
        std::vector<Endpoint> places = meeting_places_of(list);
        places.insert(places.begin(), port_search_ ? port_search_->place() : options_.place);
        asio::post(executor_,
                   [this, place = places[retried_++ % places.size()], life = std::weak_ptr(life_)] {
                       if (life.expired() || is_closing_) return;
                       const TimePoint latest = TimePoint::clock::now() + LeaderSearch::kCallTimeout;
                       call({.coordinator = place,
                             .hello = options_.hello,
                             .join_deadline = std::min(options_.join_deadline, latest)});
                   });
    }

    // The agent need not hear of each coordinator that does not lead, as long as nobody does.
    void lose(const CoordinatorLoss& loss) {
        if (seeks_port() && port_search_->takes(loss)) return;
        const bool retries = retried_ > 0 && loss.kind == CoordinatorLoss::Kind::unreached;
        if (retries && TimePoint::clock::now() < options_.join_deadline)
            return observer_.lost({CoordinatorLoss::Kind::broken, loss.cause});
        if (!leader_search_.is_on() || leader_search_.follows()) return observer_.lost(loss);
        observer_.step("no coordinator there: " + loss.cause);
        leader_search_.pass_over(loss);
    }

    void receive(const ControlMessage& message) {
        if (seeks_port() && port_search_->takes(message)) return;
        if (election_ && !leader_search_.is_on() && !hosts()) election_->settle();
        const auto* ready = std::get_if<RoundReady>(&message);
        if (ready != nullptr && hosts() && host_lease_.has_ended(ready->round, TimePoint::clock::now())) {
            client_.reset();
            return observer_.lost({CoordinatorLoss::Kind::given_up, HostLease::kEnded});
        }
        memory_.learn(message);
        if (const auto* lead = std::get_if<Lead>(&message)) return follow(*lead);
        if (const auto* moved = std::get_if<JobMoved>(&message)) return move(*moved);
        const bool has_place =
            std::holds_alternative<MemberList>(message) || std::holds_alternative<Waiting>(message) ||
            std::holds_alternative<Restarting>(message) || std::holds_alternative<Parked>(message);
        if (leader_search_.is_on() && has_place) found();
        if (has_place) retried_ = 0;
        observer_.hear(message);
    }

    void follow(const Lead& lead) {
        if (!leader_search_.may_follow(lead.epoch)) return;
        if (leader_search_.follow()) observer_.be_led();
        client_->send(Follow{lead.epoch});
    }

    // The search is over: this coordinator leads the job.
    void found() {
        if (leader_search_.called().value_or(LeaderSearch::kNobody) != LeaderSearch::kNobody)
            memory_.learn_leader(leader_search_.own(), *leader_search_.called());
        leader_search_.end();
        if (hosts()) observer_.leads();
    }

    void tell_old_place() {
        if (!election_ && place_ != options_.place) redirect_from(options_.place);
    }

    void redirect_from(const Endpoint& old_place) {
        const Hello& hello = options_.hello;
        redirect_notice_.emplace(executor_, port_search_ ? port_search_->places() : std::vector{old_place},
                                 JobMoved{hello.version, hello.run_id, hello.nnodes, hello.min_nodes,
                                          hello.command.digest, place_.host, place_.port},
                                 options_.key);
    }

    ElectionEvents election_events() {
        return {.on_elected = [this](const Endpoint& here) { meet(here, true); },
                .on_claimed =
                    [this] {
                        if (leader_search_.is_on()) leader_search_.lead();
                    },
                .on_host = [this](const Endpoint& host) { meet(host, false); },
                .on_trouble =
                    [this](const std::string& cause) {
                        if (!leader_search_.is_on()) return observer_.election_trouble(cause);
                        if (std::exchange(trouble_, cause) != cause)
                            observer_.say("who leads the job next, etcd decides: " + cause);
                    },
                .on_failed =
                    [this](const std::string& why) {
                        leader_search_.is_on() ? leader_search_.fail(why) : observer_.unelected(why);
                    },
                .on_record =
                    [this](const RecordNews& news) {
                        if (news.kind == RecordNews::Kind::trouble && std::exchange(waits_for_record_, false))
                            observer_.say("the job goes on when etcd says that no other node leads it: " +
                                          news.cause);
                        if (hosts()) server_->learn(news);
                    }};
    }

    // Etcd has said who hosts: this agent or another one. If the job runs here already, this agent does in
    // any case, and another one that was elected is told so.
    void meet(const Endpoint& host, bool is_elected) {
        if (is_closing_) return election_->settle();
        if (leader_search_.is_on()) return hosts() ? leader_search_.go_on() : leader_search_.go_to(host);
        if (hosts() && memory_.members())
            return is_elected ? election_->publish(place_) : redirect_from(host);
        if (memory_.members()) return election_->settle();
        const bool is_known = host == place_ && !server_ && client_;
        server_.reset();
        gate_.reset();
        place_ = host;
        if (is_elected) this->host();
        observer_.place_known();
        if (is_elected) election_->publish(place_);
        if (!is_known) client_.reset();
        join_here();
    }

    void go_to(const Succession::Step& next) {
        client_.reset();
        if (next.kind == Succession::Kind::host) host_next();
        place_ = meeting_place_of(next.member);
        if (election_ && hosts()) election_->publish(place_);
        observer_.step(fmt::format("{} node {} ({}) at {}", hosts() ? "would lead the job as" : "calls",
                                   next.member.group_rank, next.member.host, to_string(place_)));
        Hello hello = options_.hello;
        hello.following = leader_search_.own();
        hello.following->has_workers = observer_.has_workers();
        const HeartbeatTerms terms{std::chrono::milliseconds(leader_search_.own().last.heartbeat_ms)};
        // Its own coordinator says nothing before the election is over.
        const std::chrono::milliseconds election =
            hosts() ? Leadership::kElectionTime : std::chrono::seconds(0);
        connect({.coordinator = place_,
                 .hello = std::move(hello),
                 .join_deadline = TimePoint::clock::now() + LeaderSearch::kCallTimeout,
                 .answer_timeout = terms.patience() + election + kAnswerTime});
    }

    void host_next() {
        RendezvousServerOptions options = options_.server_options(place_);
        options.sockets = meeting_place_.sockets();
        options.coordinator.predecessor = leader_search_.own().last;
        serve(std::move(options));
    }

    void move(const JobMoved& moved) {
        place_ = {moved.address, static_cast<std::uint16_t>(moved.port)};
        if (election_ && server_) election_->release();
        if (server_) gate_ = std::move(server_);
        if (port_search_) port_search_->end();
        observer_.say(fmt::format("the job runs already; its coordinator is at {}", to_string(place_)));
        asio::post(executor_, [this, life = std::weak_ptr(life_)] {
            if (life.expired() || is_closing_) return;
            client_.reset();
            join_here();
        });
    }

    asio::any_io_executor executor_;
    RendezvousLinkOptions options_;
    LinkObserver& observer_;
    Endpoint place_;
    TimePoint::duration join_time_;  // from the first call on
    JobMemory memory_;
    MeetingPlace meeting_place_;
    std::optional<PortSearch> port_search_;
    LeaderSearch leader_search_;
    std::string trouble_;            // with etcd, in that search
    bool waits_for_record_ = false;  // the coordinator that is hosted here, and nobody has said so
    std::shared_ptr<EtcdElection> election_;
    std::size_t retried_ = 0;  // places where a node without a voice has called, since it heard from one
    bool is_closing_ = false;
    bool retires_ = false;  // the server's agents are being told that it does not lead
    HostLease host_lease_;
    std::unique_ptr<RendezvousServer> server_;
    std::unique_ptr<RendezvousServer> gate_;  // at the job's old address, says where it is from then on
    std::optional<RedirectNotice> redirect_notice_;
    std::unique_ptr<CoordinatorClient> client_;
    std::shared_ptr<int> life_ = std::make_shared<int>(0);
};

}  // namespace

std::unique_ptr<RendezvousLink> RendezvousLink::make(const asio::any_io_executor& executor,
                                                     RendezvousLinkOptions options, LinkObserver& observer) {
    return std::make_unique<Link>(executor, std::move(options), observer);
}

}  // namespace job
}  // namespace ddprun
