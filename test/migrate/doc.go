/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Package migrate migrates fleets of the older CAPT with captctl itself, while Terraform is real. Two stories are here: a fleet
// is adopted, run, upgraded and deleted; and a migration that stops half way is taken back. A third, about older manifests that
// are applied again, is in reapply. The commands of docs/migration.md are run in manual.
//
// A migration has invariants. Each is held by tests, of which these say most; a test proves that they are there.
//
//	1 Workspaces, ProviderConfigs and Secrets are left as they are
//	    test/migrate: TestALegacyFleetIsAdoptedWithoutARun, TestAMigrationThatStopsHalfWayIsTakenBack
//	    test/storage: TestTheStoragePhaseOfEveryFixtureTouchesNothingElse
//	    test/migrate/crash: TestNothingComesOfKillingApply
//	    test/verify: TestEachBrokenPromiseIsToldByItsCheck
//	2 the provider runs nothing
//	    test/migrate: TestALegacyFleetIsAdoptedWithoutARun, TestAMigrationThatStopsHalfWayIsTakenBack
//	    test/migrate: TestSafety06WholeFleetIsAdoptedUpgradedAndDeleted
//	    test/verify: TestSafety11AnEditWhileTheControllersAreOffIsReported
//	3 WorkspaceTemplateApplies are the same; nothing is deleted, and nothing created but lock, journal and events
//	    test/migrate: TestALegacyFleetIsAdoptedWithoutARun
//	    test/migrate/execute: TestAFleetIsAdoptedAndTakenBack
//	4 whoever goes on after a kill, or a lost answer, comes to the same end
//	    test/migrate/crash: TestNothingComesOfKillingApply, TestNothingComesOfKillingRollback, TestNothingComesOfKillingFinalize
//	    test/migrate: TestAMigrationThatStopsHalfWayIsTakenBack
//	    migrate/execute: TestWhereverARunIsKilledAnotherOneEndsTheSame, TestARollbackThatIsKilledIsGoneOnWith
//	    test/migrate/crds: TestARunThatIsKilledIsFinishedByTheNext, TestADefinitionThatGoesWhileItIsLookedAtIsGone
//	5 of two runs at once one writes
//	    test/migrate/crash: TestOfTwoRunsAtOnceOneWrites, TestARunThatWokeUpTooLateWritesNothing
//	    test/migrate/execute: TestAFleetIsAdoptedAndTakenBack
//	    migrate/lock: TestOfTwoRunsOneGetsTheLock
//	6 who looks writes nothing, and who may not write is told what is missing before anything is tried
//	    test/migrate: TestWhoOnlyLooksWritesNothing
//	    test/verify: TestEveryPromiseHoldsAndVerifyWritesNothing
//	    test/migrate/preflight: TestWhoMayOnlyReadIsToldWhatIsMissingAndSendsNoWrite
//	    test/migrate/crds: TestWhoMayOnlyReadIsToldWhatIsMissing
//	7 what is taken back is as it was before
//	    test/migrate: TestAMigrationThatStopsHalfWayIsTakenBack
//	    test/migrate/execute: TestAFleetIsAdoptedAndTakenBack
//	    migrate/execute: TestARollbackGivesTheFleetAsItWas, TestWhatChangedSinceIsNotTakenBack
//	8 older manifests that are applied again make nothing a second time
//	    test/migrate/reapply: TestOlderManifestsAppliedAgainMakeNothingASecondTime, TestAControlPlaneThatIsMadeAnewBesideItsClusterIsNotBuiltASecondTime
//	9 after finalize, etcd holds nothing of an older version
//	    test/migrate: TestALegacyFleetIsAdoptedWithoutARun
//	    test/storage: TestAfterFinalizeEveryByteInEtcdIsOfV1Beta2
//	10 memory is bounded, the rate kept, and progress exact
//	    test/bench: BenchmarkStorage
//	    test/storage: TestEveryObjectOfALegacyFleetIsRewrittenAndNothingElseHappens
//
// After it the manager starts, and every cluster is Ready without a write of a Workspace, and without an alarm on the way there:
// TestALegacyFleetIsAdoptedWithoutARun.
package migrate
