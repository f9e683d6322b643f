#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "rendezvous/door/door_frames.hpp"
#include "rendezvous/link/store_door.hpp"
#include "rendezvous/net/connect.hpp"
#include "rendezvous/secure/sealed_connection.hpp"
#include "rendezvous/secure/sealed_records.hpp"
#include "rendezvous/store/wire.hpp"
#include "tests/helpers/rendezvous_load.hpp"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr std::string_view kRecordKey = "/worker/group/0/unique_id";  // as long as PyTorch's are
constexpr std::size_t kRecordValueBytes = 128;                        // NCCL's

// A door without sockets of clients: what they send is put into records here.
class RecordLoad {
  public:
    RecordLoad(Endpoint server, int clients)
        : server_(std::move(server)), clients_(static_cast<std::uint32_t>(clients)), owed_(clients_ + 1) {}

    void run() {
        asio::io_context context{1};
        asio::co_spawn(context, converse(), [](const std::exception_ptr& error) {
            if (error) std::rethrow_exception(error);
        });
        context.run();
    }

  private:
    asio::awaitable<void> converse() {
        tcp::socket socket = co_await async_connect_tcp(server_, kLoadTimeout);
        const SealedCall::Result result = co_await call_sealed(socket, SealedPurpose::store, load_secret());
        if (result.proof != Proof::given) throw std::runtime_error("the door was not let in");
        SealedRecords records(*result.keys);
        open_all();
        co_await exchange(socket, records, sizeof(std::uint32_t) * clients_);
        print_line("ready");
        Request get{.opcode = Opcode::get, .key = kRecordKey};
        std::string question;
        encode_request(question, Dialect::modern, get);
        for (std::string line; std::getline(std::cin, line);) {
            std::istringstream words(line);
            std::uint32_t clients = 0;
            long count = 0;
            if (!(words >> clients >> count) || clients < 1 || clients > clients_)
                throw std::runtime_error("not a number of clients and one of questions: " + line);
            const auto begin = LoadClock::now();
            for (; count > 0; --count) {
                for (std::uint32_t client = 1; client <= clients; ++client)
                    put_door_data(text_, client, question);
                co_await exchange(socket, records, clients * (sizeof(std::uint64_t) + kRecordValueBytes));
            }
            print_line(fmt::format("done ms={:.3f}", milliseconds_between(begin, LoadClock::now())));
        }
    }

    // The first one sets the value; each is answered once.
    void open_all() {
        const std::string value(kRecordValueBytes, 'v');
        for (std::uint32_t client = 1; client <= clients_; ++client) {
            std::string words;
            encode_request(words, Dialect::modern, {.opcode = Opcode::validate, .number = kValidateMagic});
            if (client == 1)
                encode_request(words, Dialect::modern,
                               {.opcode = Opcode::set, .key = kRecordKey, .value = value});
            encode_request(words, Dialect::modern, {.opcode = Opcode::ping, .number = 1});
            put_door_frame(text_, DoorFrameKind::open, client);
            put_door_data(text_, client, words);
        }
    }

    // Sends what there is in one record, and takes so many bytes of answers.
    asio::awaitable<void> exchange(tcp::socket& socket, SealedRecords& records, std::size_t answers) {
        co_await asio::async_write(socket, asio::buffer(records.seal(text_)), asio::use_awaitable);
        text_.clear();
        std::array<char, 4096> bytes{};
        for (std::size_t taken = 0; taken < answers;) {
            const std::size_t size =
                co_await socket.async_read_some(asio::buffer(bytes), asio::use_awaitable);
            const auto plain = records.open({bytes.data(), size});
            frames_.feed(plain.value());
            for (DoorFrame frame; frames_.next(frame) == DoorFrames::Status::ready;) {
                if (frame.kind == DoorFrameKind::close) throw std::runtime_error("a client was hung up on");
                taken += frame.data.size();
                give_back(frame.channel, frame.data.size());
            }
        }
    }

    void give_back(std::uint32_t client, std::size_t bytes) {
        std::size_t& owed = owed_.at(client);
        owed += bytes;
        if (owed < kDoorCreditStep) return;
        put_door_frame(text_, DoorFrameKind::credit, client, static_cast<std::uint32_t>(owed));
        owed = 0;
    }

    Endpoint server_;
    std::uint32_t clients_;
    std::vector<std::size_t> owed_;  // credit, by the client's number
    std::string text_;               // of the next record
    DoorFrames frames_;
};

}  // namespace

SecretKey load_secret() { return SecretKey(std::string_view("a key of tests, which is no secret")); }

void load_doors(const Endpoint& server, int count) {
    std::vector<std::unique_ptr<StoreDoor>> doors;
    std::string ports;
    for (int number = 0; number < count; ++number) {
        doors.push_back(StoreDoor::make(
            {.key = load_secret(), .spared_descriptors = 0, .on_remark = [](const std::string& sentence) {
                 std::cerr << sentence << std::endl;
             }}));
        doors.back()->begin_round(server);
        ports += fmt::format(" port{}={}", number, doors.back()->endpoint().port);
    }
    print_line("ready" + ports);
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
}

void load_record(const Endpoint& server, int clients) { RecordLoad(server, clients).run(); }

}  // namespace ddprun
