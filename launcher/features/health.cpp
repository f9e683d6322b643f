#include "launcher/features/health.hpp"

#include <fmt/core.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/json.hpp>
#include <boost/system/system_error.hpp>
#include <list>
#include <utility>

#include "launcher/harmless_text.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/net/socket.hpp"
#include "rendezvous/net/socket_owner.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun::inline launch {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using asio::experimental::awaitable_operators::operator||;
using HealthSocket = asio::ip::tcp::socket;
using HealthAnswer = http::response<http::string_body>;
using HealthParser = http::request_parser<http::empty_body>;

// Kept alive by the coroutines that use it.
struct HealthService : std::enable_shared_from_this<HealthService> {
    HealthService(asio::ip::tcp::acceptor listener, std::function<std::string()> said,
                  const HealthLimits& most)
        : acceptor(std::move(listener)), text(std::move(said)), limits(most) {}

    asio::ip::tcp::acceptor acceptor;
    std::function<std::string()> text;
    HealthLimits limits;
    std::list<HealthSocket*> open;  // the oldest first
};

HealthAnswer plain_answer(http::status status, unsigned version) {
    HealthAnswer answer{status, version};
    answer.set(http::field::content_type, "application/json");
    answer.keep_alive(false);
    return answer;
}

// Returns nothing for a caller who is gone.
std::optional<HealthAnswer> answer_to(const HealthParser& parser, const error_code& error,
                                      const HealthService& service) {
    constexpr unsigned kVersion = 11;
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
        return plain_answer(http::status::request_header_fields_too_large, kVersion);
    if (error && (error.category() != make_error_code(http::error::bad_method).category() ||
                  error == http::error::end_of_stream || error == http::error::partial_message))
        return std::nullopt;
    if (error) return plain_answer(http::status::bad_request, kVersion);
    const auto& request = parser.get();
    const bool is_head = request.method() == http::verb::head;
    if (request.method() != http::verb::get && !is_head) {
        HealthAnswer answer = plain_answer(http::status::method_not_allowed, request.version());
        answer.set(http::field::allow, "GET, HEAD");
        return answer;
    }
    HealthAnswer answer = plain_answer(http::status::ok, request.version());
    answer.set(http::field::cache_control, "no-store");
    std::string text = service.text();
    answer.content_length(text.size());
    if (!is_head) answer.body() = std::move(text);
    return answer;
}

asio::awaitable<void> converse(const HealthService& service, HealthSocket& socket) {
    boost::beast::flat_buffer buffer(HealthLimits::kMaxRequest);
    HealthParser parser;
    parser.header_limit(HealthLimits::kMaxRequest);
    error_code error;
    co_await http::async_read_header(socket, buffer, parser,
                                     asio::redirect_error(asio::use_awaitable, error));
    std::optional<HealthAnswer> answer = answer_to(parser, error, service);
    if (!answer) co_return;
    if (!answer->has_content_length()) answer->prepare_payload();
    http::response_serializer<http::string_body> serializer(*answer);
    // A HEAD's answer names the length of a body that it does not have.
    serializer.split(true);
    co_await http::async_write_header(socket, serializer, asio::redirect_error(asio::use_awaitable, error));
    if (!error && !answer->body().empty())
        co_await http::async_write(socket, serializer, asio::redirect_error(asio::use_awaitable, error));
    socket.shutdown(HealthSocket::shutdown_send, error);
}

asio::awaitable<void> serve_one(std::shared_ptr<HealthService> service, HealthSocket socket) {
    const auto place = service->open.insert(service->open.end(), &socket);
    // Closing it ends what its conversation waits for.
    error_code ignored;
    if (service->open.size() > service->limits.connections) service->open.front()->close(ignored);
    asio::steady_timer timer(socket.get_executor(), service->limits.timeout);
    co_await (converse(*service, socket) || timer.async_wait(asio::use_awaitable));
    service->open.erase(place);
}

std::string taken_text(std::uint16_t port) {
    const auto owner = find_port_owner(port);
    return owner ? fmt::format("the port is held by pid {} ({})", owner->pid, owner->command)
                 : std::string("the port is taken");
}

}  // namespace

std::variant<std::optional<std::uint16_t>, std::string> parse_health_port(
    const std::optional<std::string>& value) {
    if (!value || value->empty()) return std::nullopt;
    const auto port = parse_port(*value);
    if (port && *port != 0) return port;
    return fmt::format("{}: '{}' must be a port from 1 to 65535", kHealthPortVariable, harmless_line(*value));
}

std::string health_text(const AgentStatus& status) {
    // Before the first round there is no job yet.
    const auto of_round = [&status](int number) {
        return status.job_id.empty() ? boost::json::value(nullptr) : boost::json::value(number);
    };
    const boost::json::object text{{"status", "alive"},
                                   {"state", status.state},
                                   {"round", of_round(status.round)},
                                   {"restart_count", of_round(status.restart_count)},
                                   {"world_size", of_round(status.world_size)},
                                   {"workers", status.workers.size()}};
    return boost::json::serialize(text) + "\n";
}

std::uint16_t serve_health(const asio::any_io_executor& executor, std::uint16_t port,
                           std::function<std::string()> text, const HealthLimits& limits) {
    auto service =
        std::make_shared<HealthService>(listen_tcp(executor, limits.scope, port), std::move(text), limits);
    const std::uint16_t taken = service->acceptor.local_endpoint().port();
    const auto take = [executor, &taker = *service](HealthSocket socket) {
        asio::co_spawn(executor, serve_one(taker.shared_from_this(), std::move(socket)), asio::detached);
    };
    // Nobody calls any more if the listener itself is broken.
    asio::co_spawn(executor, accept_each(service->acceptor, take), [service](const std::exception_ptr&) {});
    return taken;
}

namespace {

class HealthPort final : public Feature {
  public:
    HealthPort(std::uint16_t port, ListenScope scope) : port_(port), limits_{.scope = scope} {}

    void began(AgentControls& agent) override {
        try {
            serve_health(
                agent.executor(), port_, [&agent] { return health_text(agent.status()); }, limits_);
        } catch (const boost::system::system_error& error) {
            const std::string why = error.code() == Errc::address_in_use ? taken_text(port_) : error.what();
            agent.say(LogLevel::warn,
                      fmt::format("{} {}: {}; nobody can ask whether this agent is alive, the job goes on",
                                  kHealthPortVariable, port_, why));
        }
    }

  private:
    std::uint16_t port_;
    HealthLimits limits_;
};

}  // namespace

std::unique_ptr<Feature> make_health(FeatureInputs& inputs) {
    return std::make_unique<HealthPort>(inputs.health_port.value(), inputs.health_scope);
}

}  // namespace ddprun::inline launch
