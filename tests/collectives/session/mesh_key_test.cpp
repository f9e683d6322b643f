#include <poll.h>

#include <algorithm>
#include <optional>

#include <latch>

#include "collectives/session/bootstrap.hpp"
#include "collectives/session/place.hpp"
#include "collectives/wire/frame.hpp"
#include "rendezvous/base/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/memory_store.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Keys = std::vector<std::optional<SecretKey>>;

// One rank for each key, met over a memory store; over TCP alone, so that there are data connections.
void run_with_keys(const Keys& keys, const std::function<void(Communicator&)>& body,
                   const CommunicatorOptions& options = {}) {
    const auto data = std::make_shared<MemoryStoreData>();
    run_ranks(static_cast<int>(keys.size()), [&](int rank) {
        Place place{rank, static_cast<int>(keys.size()), -1, -1, 0, Transport::tcp};
        place.mesh_key = keys[static_cast<std::size_t>(rank)];
        Communicator communicator(
            open_session(std::make_shared<MemoryStore>(data), "127.0.0.1", place, options));
        body(communicator);
    });
}

// What each rank says when they do not come together.
std::vector<std::string> complaints(const Keys& keys) {
    std::vector<std::string> texts(keys.size());
    const auto data = std::make_shared<MemoryStoreData>();
    run_ranks(static_cast<int>(keys.size()), [&](int rank) {
        Place place{rank, static_cast<int>(keys.size()), -1, -1, 0, Transport::tcp};
        place.mesh_key = keys[static_cast<std::size_t>(rank)];
        const auto error = expect_error([&] {
            open_session(std::make_shared<MemoryStore>(data), "127.0.0.1", place, CommunicatorOptions{});
        });
        texts[static_cast<std::size_t>(rank)] = error.what();
    });
    return texts;
}

void sum_ranks(Communicator& communicator) {
    std::vector<int> ones(1000, 1);
    communicator.all_reduce(std::span(ones), ReduceOp::sum);
    expect(ones == std::vector<int>(1000, communicator.world_size()), "all ranks took part");
}

// What a rank says whose neighbour is somebody else, who hears its Hello and answers with `words` of it; then
// ends.
std::string complaint_about(const SecretKey& key,
                            const std::function<std::vector<std::byte>(const HelloBytes&)>& words) {
    std::optional<TcpListener> impostor("127.0.0.1");
    TcpListener own("127.0.0.1");
    Membership membership;
    membership.members = {{own.endpoint(), "host"}, {impostor->endpoint(), "host"}};
    membership.mesh_key = key;
    std::string text;
    run_ranks(2, [&](int rank) {
        if (rank == 0) {
            text = expect_error([&] {
                       open_session(membership, std::move(own), Transport::tcp, std::nullopt, {},
                                    Deadline::clock::now() + std::chrono::seconds(60));
                   }).what();
            return;
        }
        pollfd polled{impostor->descriptor(), POLLIN, 0};
        expect(::poll(&polled, 1, 60'000) == 1, "the rank dials");
        TcpLink link(0, impostor->accept());
        impostor.reset();
        HelloBytes hello{};
        for (std::size_t held = 0; held < hello.size();) {
            pollfd readable{link.descriptor(), POLLIN, 0};
            expect(::poll(&readable, 1, 60'000) == 1, "the rank says who it is");
            iovec rest{hello.data() + held, hello.size() - held};
            held += link.read_some({&rest, 1});
        }
        auto answer = words(hello);
        iovec part{answer.data(), answer.size()};
        link.write_some({&part, 1});
    });
    return text;
}

std::vector<std::byte> offer_of(const SecretKey& key, const HelloBytes& hello, MeshSide side) {
    const Nonce challenge{1, 2, 3};
    const auto answer = encode(HelloAnswer::prove);
    const auto offer = encode(MeshOffer{challenge, make_proof(key, side, hello, challenge)});
    std::vector<std::byte> words(answer.size() + offer.size());
    std::copy(offer.begin(), offer.end(), std::copy(answer.begin(), answer.end(), words.begin()));
    return words;
}

}  // namespace

TEST_CASE("ranks with one key come together, also in what is made of their communicator", "[mesh_key]") {
    const SecretKey key = SecretKey::fresh();
    run_with_keys({key, key, key, key}, [](Communicator& communicator) {
        sum_ranks(communicator);
        Communicator half = communicator.split(communicator.rank() % 2).value();
        sum_ranks(half);
        Communicator again = communicator.shrink({});
        sum_ranks(again);
    });
}

TEST_CASE("who has another key, or none, is refused as that", "[mesh_key]") {
    const SecretKey key = SecretKey::fresh();
    const auto other = complaints({key, SecretKey::fresh()});
    for (const std::string& text : other)
        CHECK_THAT(text, Catch::Contains("has another DDPRUN_MESH_KEY than rank"));
    CHECK_THAT(other[0] + other[1], Catch::Contains("as rank 1") || Catch::Contains("as rank 0"));
    for (const Keys& keys : {Keys{key, std::nullopt}, Keys{std::nullopt, key}}) {
        for (const std::string& text : complaints(keys)) {
            CHECK_THAT(text, Catch::Contains("refused the connection of rank") &&
                                 Catch::Contains("DDPRUN_MESH_KEY, and the caller has"));
            CHECK_THAT(text, !Catch::Contains(hex_of(key)));
        }
    }
}

TEST_CASE("who listens at a rank's address and has no key is not taken for that rank", "[mesh_key]") {
    const SecretKey key = SecretKey::fresh();
    struct Case {
        const char* what;
        std::function<std::vector<std::byte>(const HelloBytes&)> words;
        const char* complaint;
    };
    const std::vector<Case> cases{
        {"another key",
         [](const HelloBytes& hello) { return offer_of(SecretKey::fresh(), hello, MeshSide::dialled); },
         "has another DDPRUN_MESH_KEY"},
        {"the other side's proof",
         [&](const HelloBytes& hello) { return offer_of(key, hello, MeshSide::dialler); },
         "has another DDPRUN_MESH_KEY"},
        {"a proof of another call",
         [&](HelloBytes hello) {
             hello[50] ^= std::byte{1};
             return offer_of(key, hello, MeshSide::dialled);
         },
         "has another DDPRUN_MESH_KEY"},
        {"a welcome without a proof",
         [](const HelloBytes&) {
             const auto answer = encode(HelloAnswer::welcome);
             return std::vector<std::byte>(answer.begin(), answer.end());
         },
         "is not rank 1"},
        {"garbage",
         [](const HelloBytes&) {
             return std::vector<std::byte>(kHelloAnswerSize + kOfferSize, std::byte{7});
         },
         "is not rank 1"},
    };
    run_ranks(static_cast<int>(cases.size()), [&](int number) {
        const Case& one = cases[static_cast<std::size_t>(number)];
        const std::string text = complaint_about(key, one.words);
        expect(text.find(one.complaint) != std::string::npos, std::string(one.what) + ": " + text);
    });
}

TEST_CASE("an answer that is cut after any of its bytes ends the wait", "[mesh_key]") {
    const SecretKey key = SecretKey::fresh();
    const int size = static_cast<int>(kHelloAnswerSize + kOfferSize);
    run_ranks(size, [&](int cut) {
        const std::string text = complaint_about(key, [&](const HelloBytes& hello) {
            auto words = offer_of(key, hello, MeshSide::dialled);
            words.resize(static_cast<std::size_t>(cut));
            return words;
        });
        expect(text.find("rank 1 died") != std::string::npos, text);
    });
}

TEST_CASE("data of a rank that has left arrive, though its proof may come after the news of that",
          "[mesh_key]") {
    const SecretKey key = SecretKey::fresh();
    for (int round = 0; round < 20; ++round) {
        run_with_keys({key, key, key}, [](Communicator& communicator) {
            std::vector<int> word{communicator.rank()};
            if (communicator.rank() == 1) communicator.send(std::span<const int>(word), 2);
            if (communicator.rank() == 2) {
                communicator.recv(std::span(word), 1);
                expect(word[0] == 1, "the word of rank 1");
            }
        });
    }
}
