// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package migrate tests captctl migrate as users run it: the program itself, on a real API server, with the manager running.
//
// A migration has invariants. Each is tested, mostly by these tests:
//
//	1 captctl never writes Workspaces, ProviderConfigs or Secrets
//	    test/migrate: TestWholeFleetIsAdoptedUpgradedAndDeleted, TestARollbackRestoresEveryObject
//	    test/migrate/crash: TestARunThatIsKilledIsResumed
//	2 The provider runs nothing because of a migration
//	    test/migrate: TestWholeFleetIsAdoptedUpgradedAndDeleted
//	3 WorkspaceTemplateApplies keep their UIDs; captctl sends no DELETE
//	    test/migrate: TestWholeFleetIsAdoptedUpgradedAndDeleted, TestARollbackRestoresEveryObject
//	    test/migrate/crash: TestARunThatIsKilledIsResumed
//	4 A run that was killed, or that lost an answer, is resumed anywhere with the same end
//	    test/migrate/crash: TestARunThatIsKilledIsResumed
//	5 Of two runs at the same time one writes
//	    test/migrate: TestARollbackRestoresEveryObject
//	    test/migrate/crash: TestARunThatFindsAnotherAliveWritesNothing, TestARunThatLostItsLeaseWritesNothing
//	    migrate/lock: TestOfTwoRunsOneGetsTheLock
//	6 check, plan, show and status write nothing; missing rights are listed before any write
//	    test/migrate: TestReadOnlyCommandsWriteNothing
//	7 apply and then rollback gives equal objects, with and without the manager having run in between
//	    test/migrate: TestARollbackRestoresEveryObject
//	8 Old manifests applied again change no Workspace
//	    test/migrate/reapply: TestOldManifestsAppliedAgainChangeNoWorkspace, TestARecreatedControlPlaneIsNotBuiltAgain
//	9 Memory is bounded and the rate limited
//	    test/bench: BenchmarkMigrate
//	10 The reference fleet needs no decision, and is adopted, upgraded and deleted
//	    test/migrate: TestWholeFleetIsAdoptedUpgradedAndDeleted
//	11 With --prove, a unit is adopted only if the plan of each Workspace is empty
//	    test/migrate: TestAUnitIsAdoptedOnlyOnAnEmptyPlan
//
// Before the adoption, the manager writes nothing but conditions: TestBeforeAdoptionTheManagerWritesOnlyConditions,
// TestEveryKindOfFleet.
package migrate_test
