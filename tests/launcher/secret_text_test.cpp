#include "launcher/secret_text.hpp"

#include "launcher/harmless_text.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

using Words = std::vector<std::string>;

TEST_CASE("which names are secret") {
    for (const char* name : {"JOB_DB_PASS",
                             "DATABASE_URL",
                             "ML_TOKEN",
                             "PGPASSWORD",
                             "AWS_SECRET_ACCESS_KEY",
                             "AWS_SESSION_TOKEN",
                             "HF_TOKEN",
                             "WANDB_API_KEY",
                             "DDPRUN_SECRET",
                             "DDPRUN_MESH_KEY",
                             "PET_Password",
                             "SLURM_JWT",
                             "MYSQL_PWD",
                             "REDIS_URL",
                             "MONGODB_URI",
                             "BASIC_AUTH",
                             "SENTRY_DSN",
                             "GIT_CREDENTIALS",
                             "AZURE_STORAGE_CONNECTION_STRING",
                             "SLACK_WEBHOOK_URL",
                             "OMPI_MCA_orte_precondition_transports",
                             "dbpass",
                             "--password",
                             "--pw",
                             "DB_PW",
                             "--api-key",
                             "--hf_token",
                             "GITHUB_PAT"}) {
        CAPTURE(name);
        CHECK(is_secret_name(name));
    }
    for (const char* name : {"PATH", "PWD", "OLDPWD", "HOME", "NCCL_IB_PKEY", "TOKENIZERS_PARALLELISM",
                             "--max-tokens", "DDPRUN_SECRET_FILE", "PASSENGER", "COMPASS_X", "--auth",
                             "BYPASSES", "SERVER_URL", "RANK", "", "SSH_KEY_PATH", "--pin-memory"}) {
        CAPTURE(name);
        CHECK_FALSE(is_secret_name(name));
    }
}

TEST_CASE("a command is stored and shown without secrets") {
    const struct {
        Words words, masked;
    } rows[] = {
        {{"train.py", "--password", "x", "--lr", "1"},
         {"train.py", "--password", "(not shown)", "--lr", "1"}},
        {{"--token=x"}, {"--token=(not shown)"}},
        {{"Server=x;Password=y;User=z"}, {"Server=x;Password=(not shown)"}},
        {{"h?user=x&password=y"}, {"h?user=x&password=(not shown)"}},
        {{"--password", "--lr", "1"}, {"--password", "--lr", "1"}},
        {{"--env", "ML_TOKEN=a b"}, {"--env", "ML_TOKEN=(not shown)"}},
        {{"--env-rank=0-3:ML_TOKEN=a"}, {"--env-rank=0-3:ML_TOKEN=(not shown)"}},
        {{"--env=ML_TOKEN=a"}, {"--env=ML_TOKEN=(not shown)"}},
        // Where a value with blanks ends nobody can tell.
        {{"sh", "-c", "PGPASSWORD=x psql y"}, {"sh", "-c", "PGPASSWORD=(not shown)"}},
        {{"sh", "-c", "psql  --api-key y z"}, {"sh", "-c", "psql  --api-key (not shown) z"}},
        {{"postgres://ann:p%40w@db:5432/x?a=b"}, {"postgres://ann:(not shown)@db:5432/x?a=b"}},
        {{"--db=redis://:p/w@h/0"}, {"--db=redis://:(not shown)@h/0"}},
        {{"http://h:80/@scope", "ssh://git@h/x", "a@b:c"}, {"http://h:80/@scope", "ssh://git@h/x", "a@b:c"}},
        {{"--login", "hf_abcdefghijklmnopqrst"}, {"--login", "(not shown)"}},
        {{std::string(190, 'a') + "_PASSWORD=x"}, {std::string(190, 'a') + "_PASSWORD=(not shown)"}},
        {{std::string(191, 'a') + "_PASSWORD=x"}, {std::string(191, 'a') + "_PASSWORD=x"}},
        {{"--key", "", "--secret-file", "/s", "A=1", "--hosts", "a:8,b:8"},
         {"--key", "(not shown)", "--secret-file", "/s", "A=1", "--hosts", "a:8,b:8"}},
    };
    for (const auto& row : rows) CHECK(masked_words(row.words) == row.masked);
}

TEST_CASE("what programs print is shown without the passwords of its addresses") {
    CHECK(harmless_line("cannot reach 'amqp://u:p@q' or http://a:b@c") ==
          "cannot reach 'amqp://u:(not shown)@q' or http://a:(not shown)@c");
    CHECK(harmless_line("KeyError: key=5") == "KeyError: key=5");
    CHECK(cut_middle("x\nredis://:p@h\n", 64) == "x\nredis://:(not shown)@h\n");
}

}  // namespace ddprun
