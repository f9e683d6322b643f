#include "rendezvous/etcd/etcd_client.hpp"

#include <fmt/core.h>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/etcd/tls.hpp"
#include "rendezvous/net/connect.hpp"
#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/net/socket.hpp"

namespace ddprun {
inline namespace job {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using TimePoint = EtcdClient::TimePoint;

namespace {

// A server that is gone without a word is noticed by then, also while a watch is silent.
constexpr std::chrono::seconds kSilenceLimit{10};

using Parser = http::response_parser<http::string_body>;

std::string http_request(const Endpoint& endpoint, const EtcdRequest& request) {
    return fmt::format(
        "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}",
        request.path, to_string(endpoint), request.body.size(), request.body);
}

EtcdAnswer failed(const Endpoint& endpoint, const std::string& what) {
    return {EtcdAnswer::Kind::failed, fmt::format("{} {}", to_string(endpoint), what)};
}

EtcdAnswer unheard(const Endpoint& endpoint, const TlsTrouble& trouble) {
    EtcdAnswer answer = failed(endpoint, trouble.words);
    if (trouble.is_final) answer.kind = EtcdAnswer::Kind::refused;
    return answer;
}

// An answer with any other status than 200.
EtcdAnswer refused(const Endpoint& endpoint, const Parser& parser) {
    const int status = static_cast<int>(parser.get().result_int());
    const std::string reason(http::obsolete_reason(parser.get().result()));
    const EtcdRefusal refusal = read_refusal(status, parser.get().body());
    return {refusal.is_final ? EtcdAnswer::Kind::refused : EtcdAnswer::Kind::failed,
            fmt::format("{} answers {} {}{}{}", to_string(endpoint), status, reason,
                        refusal.words.empty() ? "" : ": ", refusal.words)};
}

// Tells whether a whole message of a watch, each a line, has news; the others are taken away.
bool take_news(std::string& body) {
    for (auto end = body.find('\n'); end != std::string::npos; end = body.find('\n')) {
        if (is_news(std::string_view(body).substr(0, end))) return true;
        body.erase(0, end + 1);
    }
    return false;
}

// Has the parser take what it can of `unread`; the rest stays there.
void feed(Parser& parser, std::string& unread, error_code& error) {
    unread.erase(0, parser.put(asio::buffer(std::as_const(unread)), error));
    if (error == http::error::need_more) error.clear();
}

// Tells it that the other side has said all that it will.
void finish(Parser& parser, error_code& error) {
    error = http::error::end_of_stream;
    if (parser.got_some()) parser.put_eof(error);
}

bool is_good(const Parser& parser) {
    return parser.is_header_done() && parser.get().result() == http::status::ok;
}

// Sends one request and reads its answer, over a connection of either kind.
asio::awaitable<EtcdAnswer> exchange(ByteStream& stream, const Endpoint& endpoint, const EtcdRequest& request,
                                     bool is_watch) {
    // A server that refuses may hang up before it has read all: what it says first is still there, and tells
    // more.
    const std::string sent = http_request(endpoint, request);
    const error_code unsent = co_await stream.write(sent);

    Parser parser;
    parser.eager(true);
    parser.body_limit(is_watch ? boost::optional<std::uint64_t>() : EtcdClient::kMaxAnswerBytes);
    parser.header_limit(EtcdClient::kMaxHeaderBytes);
    std::string unread;
    std::array<char, 4096> chunk;
    std::size_t heard = 0;  // also what had no news
    while (!parser.is_done()) {
        error_code error;
        const std::size_t size = co_await stream.read_some(asio::buffer(chunk), error);
        if (!error) feed(parser, unread.append(chunk.data(), size), error);
        if (error == asio::error::eof) finish(parser, error);
        if (error && unsent && !parser.is_header_done() && !is_tls_word(error)) error = unsent;
        if (error) throw boost::system::system_error(error);
        std::string& body = parser.get().body();
        if (is_watch && is_good(parser) && take_news(body)) co_return EtcdAnswer{EtcdAnswer::Kind::good, {}};
        heard += size;
        if (heard > EtcdClient::kMaxAnswerBytes + EtcdClient::kMaxHeaderBytes ||
            body.size() + unread.size() > EtcdClient::kMaxAnswerBytes)
            co_return failed(endpoint, "says too much for an answer");
    }
    if (!is_good(parser)) co_return refused(endpoint, parser);
    if (is_watch) co_return failed(endpoint, "ended a watch");
    co_return EtcdAnswer{EtcdAnswer::Kind::good, std::move(parser.get().body())};
}

// Gives what `work` comes to; nothing if it is not done by then, and it is given up.
template <class Result>
asio::awaitable<std::optional<Result>> by(TimePoint deadline, asio::awaitable<Result> work) {
    using namespace asio::experimental::awaitable_operators;
    asio::steady_timer timer(co_await asio::this_coro::executor, deadline);
    auto first = co_await (std::move(work) || timer.async_wait(asio::use_awaitable));
    if (first.index() == 1) co_return std::nullopt;
    co_return std::get<0>(std::move(first));
}

}  // namespace

EtcdClient::EtcdClient(EtcdOptions options) : endpoints_(std::move(options.endpoints)) {
    if (options.tls) tls_ = std::make_unique<TlsContext>(std::move(*options.tls));
}

EtcdClient::~EtcdClient() = default;

asio::awaitable<EtcdAnswer> EtcdClient::ask(EtcdRequest request, TimePoint deadline) {
    EtcdAnswer all;
    bool is_refused = true;
    for (std::size_t attempt = 0; attempt < endpoints_.size(); ++attempt) {
        const std::size_t at = (last_ + attempt) % endpoints_.size();
        const auto timeout = std::min(time_until(deadline), kRequestTimeout);
        if (timeout.count() == 0) {
            is_refused = false;
            break;
        }
        EtcdAnswer answer = co_await ask_one(endpoints_[at], request, timeout);
        if (answer.kind == EtcdAnswer::Kind::good) {
            last_ = at;
            co_return answer;
        }
        is_refused = is_refused && answer.kind == EtcdAnswer::Kind::refused;
        all.text += (all.text.empty() ? "" : "; ") + answer.text;
    }
    all.kind = is_refused ? EtcdAnswer::Kind::refused : EtcdAnswer::Kind::failed;
    co_return all;
}

asio::awaitable<EtcdAnswer> EtcdClient::ask_one(const Endpoint& endpoint, const EtcdRequest& request,
                                                std::chrono::milliseconds timeout) {
    auto answer = co_await by(TimePoint::clock::now() + timeout, converse(endpoint, request, timeout, false));
    co_return answer ? std::move(*answer) : failed(endpoint, "does not answer");
}

asio::awaitable<EtcdAnswer> EtcdClient::watch(EtcdRequest request, TimePoint deadline) {
    const Endpoint endpoint = last_endpoint();
    auto answer = co_await by(std::min(deadline, TimePoint::clock::now() + kWatchTimeout),
                              converse(endpoint, request, kRequestTimeout, true));
    co_return answer ? std::move(*answer) : EtcdAnswer{EtcdAnswer::Kind::good, {}};
}

asio::awaitable<EtcdAnswer> EtcdClient::converse(const Endpoint& endpoint, const EtcdRequest& request,
                                                 std::chrono::milliseconds connect_timeout, bool is_watch) {
    try {
        const auto connected_by = TimePoint::clock::now() + connect_timeout;
        tcp::socket socket = co_await async_connect_tcp(endpoint, connect_timeout);
        limit_silence(socket, kSilenceLimit);
        local_address_ = socket.local_endpoint().address().to_string();
        if (tls_)
            co_return co_await converse_secretly(std::move(socket), endpoint, request, connected_by,
                                                 is_watch);
        const auto stream = ByteStream::plain(std::move(socket));
        co_return co_await exchange(*stream, endpoint, request, is_watch);
    } catch (const Error& error) {
        co_return EtcdAnswer{EtcdAnswer::Kind::failed, error.what()};
    } catch (const boost::system::system_error& error) {
        // A server that wants TLS hangs up on anything else.
        const bool may_want_tls = !tls_ && (error.code() == http::error::end_of_stream ||
                                            error.code() == asio::error::connection_reset);
        co_return failed(endpoint,
                         fmt::format("gives no answer of etcd's: {}{}", error.code().message(),
                                     may_want_tls ? "; if it wants TLS, --rdzv-conf protocol=https" : ""));
    }
}

asio::awaitable<EtcdAnswer> EtcdClient::converse_secretly(tcp::socket socket, const Endpoint& endpoint,
                                                          const EtcdRequest& request,
                                                          TimePoint handshake_deadline, bool is_watch) {
    const auto stream = TlsStream::make(std::move(socket), *tls_, endpoint.host);
    const auto error = co_await by(handshake_deadline, stream->shake_hands());
    if (!error) co_return failed(endpoint, "does not answer in the handshake of TLS");
    if (*error) co_return unheard(endpoint, stream->trouble(*error));
    try {
        co_return co_await exchange(*stream, endpoint, request, is_watch);
    } catch (const boost::system::system_error& late) {
        if (!is_tls_word(late.code())) throw;
        co_return unheard(endpoint, stream->trouble(late.code()));
    }
}

namespace {

constexpr std::size_t kMaxRoundDepth = 2;

struct RoundRules : JsonRules {
    static constexpr std::size_t kMaxText = 1024;
};

std::optional<RoundRecord> read_round(const std::optional<std::string>& json) {
    const auto root = json ? parse_json_object(*json, kMaxRoundDepth) : std::nullopt;
    RoundRecord record;
    if (!root || !take_members<RoundRules>(*root, record)) return std::nullopt;
    return record;
}

}  // namespace

EtcdRegister::EtcdRegister(const EtcdOptions& etcd, const std::string& run_id, std::chrono::milliseconds ttl)
    : host_key_(ddprun::host_key(etcd.prefix, run_id)),
      round_key_(round_key(etcd.prefix, run_id)),
      ttl_(ttl),
      client_(etcd) {}

template <class Value>
std::optional<Value> EtcdRegister::read(const EtcdAnswer& answer,
                                        std::optional<Value> (*reader)(std::string_view)) {
    is_refused_ = answer.kind == EtcdAnswer::Kind::refused;
    if (answer.kind != EtcdAnswer::Kind::good) {
        cause_ = answer.text;
        return std::nullopt;
    }
    auto value = reader(answer.text);
    if (!value)
        cause_ = fmt::format("what listens at {} does not answer as etcd does",
                             to_string(client_.last_endpoint()));
    return value;
}

asio::awaitable<std::optional<EtcdRegister::View>> EtcdRegister::look(TimePoint deadline) {
    auto host = read(co_await client_.ask(read_key(host_key_), deadline), read_key_state);
    if (!host) co_return std::nullopt;
    auto round = read(co_await client_.ask(read_key(round_key_), deadline), read_key_state);
    if (!round) co_return std::nullopt;
    // The answer to the request that wrote it may have been lost.
    has_recorded_ = round_lease_ && round->lease == round_lease_->id;
    auto record = read_round(round->value);
    co_return View{std::move(*host), std::move(*round), std::move(record)};
}

asio::awaitable<bool> EtcdRegister::await_change(const View& view, bool of_host, TimePoint deadline) {
    EtcdRequest request = watch_key(round_key_, view.round.revision + 1);
    if (of_host) request = watch_key(host_key_, view.host.revision + 1);
    const auto answer = co_await client_.watch(std::move(request), deadline);
    co_return answer.kind == EtcdAnswer::Kind::good;
}

// A lease that there is may have run out; then what is bound to it is refused, and it is forgotten.
asio::awaitable<bool> EtcdRegister::lease(std::optional<Lease>& lease, std::int64_t ttl_s,
                                          TimePoint deadline) {
    if (!lease) lease = read(co_await client_.ask(grant_lease(ttl_s), deadline), read_granted);
    co_return lease.has_value();
}

std::int64_t EtcdRegister::round_ttl_s() const { return kRoundTtls * host_lease_->ttl_s; }

asio::awaitable<std::optional<bool>> EtcdRegister::take(const View& view, std::string host,
                                                        TimePoint deadline) {
    const std::int64_t ttl_s =
        std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(ttl_).count());
    co_await drop_host(deadline);
    if (!co_await lease(host_lease_, ttl_s, deadline)) co_return std::nullopt;
    std::vector<KeyWrite> writes{{host_key_, std::move(host), host_lease_->id}};
    const bool takes_round = view.round.value && !is_own_round(view);
    if (takes_round) {
        co_await drop(round_lease_, deadline);
        if (!co_await lease(round_lease_, round_ttl_s(), deadline)) co_return std::nullopt;
        writes.push_back({round_key_, *view.round.value, round_lease_->id});
    }
    const auto request = write_keys({{KeyTest::Kind::change, host_key_, view.host.change},
                                     {KeyTest::Kind::change, round_key_, view.round.change}},
                                    writes);
    const auto written = read(co_await client_.ask(request, deadline), read_written);
    if (!written) co_return std::nullopt;
    if (!*written) co_await drop_host(deadline);
    if (*written) has_recorded_ = view.round.value.has_value();
    co_return written;
}

asio::awaitable<std::optional<bool>> EtcdRegister::write_host(std::string host, TimePoint deadline) {
    const auto request = write_keys({{KeyTest::Kind::lease, host_key_, host_lease_->id}},
                                    {{host_key_, std::move(host), host_lease_->id}});
    co_return read(co_await client_.ask(request, deadline), read_written);
}

asio::awaitable<std::optional<bool>> EtcdRegister::record(const RoundRecord& record, bool anew,
                                                          TimePoint deadline) {
    if (anew) co_await drop(round_lease_, deadline);
    if (!co_await lease(round_lease_, round_ttl_s(), deadline)) co_return std::nullopt;
    const KeyTest round = anew ? KeyTest{KeyTest::Kind::change, round_key_, 0}
                               : KeyTest{KeyTest::Kind::lease, round_key_, round_lease_->id};
    const auto request =
        write_keys({{KeyTest::Kind::lease, host_key_, host_lease_->id}, round},
                   {{round_key_, boost::json::serialize(json_of<RoundRules>(record)), round_lease_->id}});
    const auto written = read(co_await client_.ask(request, deadline), read_written);
    if (written) has_recorded_ = *written;
    co_return written;
}

asio::awaitable<std::optional<bool>> EtcdRegister::keep(TimePoint deadline) {
    const auto kept = read(co_await client_.ask(keep_lease(host_lease_->id), deadline), read_kept);
    if (!kept) co_return std::nullopt;
    if (has_recorded_) {
        const auto round = read(co_await client_.ask(keep_lease(round_lease_->id), deadline), read_kept);
        if (!round) co_return std::nullopt;
    }
    co_return kept->ttl_s > 0;
}

asio::awaitable<void> EtcdRegister::drop(std::optional<Lease>& lease, TimePoint deadline) {
    if (!lease) co_return;
    const LeaseId id = std::exchange(lease, std::nullopt)->id;
    co_await client_.ask(revoke_lease(id), deadline);
}

asio::awaitable<void> EtcdRegister::drop_host(TimePoint deadline) { co_await drop(host_lease_, deadline); }

asio::awaitable<void> EtcdRegister::drop_round(TimePoint deadline) {
    has_recorded_ = false;
    co_await drop(round_lease_, deadline);
}

std::string EtcdRegister::own_address() const {
    const std::string& used = client_.local_address();
    const std::string& asked = client_.last_endpoint().host;
    if (!is_loopback_address(used) || asked == "localhost" || is_loopback_address(asked)) return used;
    // A machine's own name often stands for an address of loopback.
    for (const LocalAddress& local : local_addresses()) {
        if (!local.is_loopback) return local.address;
    }
    return used;
}

std::chrono::milliseconds EtcdRegister::keep_period() const {
    return std::chrono::milliseconds(host_lease_->ttl_s * 1000 / 3);
}

}  // namespace job
}  // namespace ddprun
